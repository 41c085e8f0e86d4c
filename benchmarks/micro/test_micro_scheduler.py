"""The scheduler's own cost: whole requests on an executor that only counts."""

# ruff: noqa: ARG002 (the protocol gives more than a counter needs)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eredu.contract.constraint import Constraint
from eredu.contract.executor import CommitPlan, ExecutorTraits, Submission, VerificationOutcome
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.scheduling.run import run_requests

TOKENS = 256
VOCABULARY = 97


@dataclass(slots=True)
class CountingBlock:
    """Proposals that count upwards."""

    tokens: list[int]
    at_grammar_end: bool = False

    @property
    def count(self) -> int:
        """Number of proposals."""
        return len(self.tokens)


@dataclass(slots=True)
class CountingSequence:
    """Committed tokens of one request."""

    tokens: list[int] = field(default_factory=list)


class CountingExecutor:
    """Its target counts upwards, its drafter too, except that every eighth proposal is wrong."""

    @property
    def traits(self) -> ExecutorTraits:
        """No limit that binds."""
        return ExecutorTraits(VOCABULARY, 64, 1 << 20, None, exact_promotion=True)

    def open(self, request: GenerationRequest) -> CountingSequence:
        """Remember the prompt."""
        return CountingSequence(list(request.prompt))

    def prefill(self, sequence: CountingSequence, limit: int) -> int:
        """Nothing has to be fed."""
        return 0

    def draft(
        self, sequence: CountingSequence, count: int, promoted: CountingBlock | None, constraint: Constraint | None
    ) -> CountingBlock:
        """Count on, or top up what was promoted."""
        block = promoted or CountingBlock([])
        block.tokens.extend(self._proposals(len(sequence.tokens), block.count, count))
        return block

    def submit(
        self, group: Sequence[Submission[CountingSequence, CountingBlock]]
    ) -> list[VerificationOutcome | Exception]:
        """Compare at once."""
        return [self._compare(member.sequence, member.block) for member in group]

    @staticmethod
    def _compare(sequence: CountingSequence, block: CountingBlock) -> VerificationOutcome:
        start = len(sequence.tokens)
        right = [(start + at) % VOCABULARY for at in range(block.count + 1)]
        accepted = next((at for at, token in enumerate(block.tokens) if token != right[at]), block.count)
        return VerificationOutcome(tuple(block.tokens), accepted, right[accepted])

    def branch(self, sequence: CountingSequence, block: CountingBlock, count: int) -> CountingBlock:
        """Count on behind the block."""
        return CountingBlock(self._proposals(len(sequence.tokens) + block.count, 0, count))

    def wait(self, sequence: CountingSequence, verification: VerificationOutcome) -> VerificationOutcome:
        """Nothing runs."""
        return verification

    def bonus_guess(self, sequence: CountingSequence, branch: CountingBlock) -> int:
        """The first of its tokens."""
        return branch.tokens[0]

    def commit(
        self, sequence: CountingSequence, plan: CommitPlan, branch: CountingBlock | None
    ) -> CountingBlock | None:
        """Append, and keep the rest of a promoted branch."""
        sequence.tokens.extend(plan.tokens)
        if plan.promoted is None or branch is None:
            return None
        return CountingBlock(branch.tokens[1 : 1 + plan.promoted])

    def close(self, sequence: CountingSequence) -> None:
        """Nothing is held."""

    @staticmethod
    def _proposals(start: int, first: int, count: int) -> list[int]:
        places = range(start + first, start + count)
        return [place % VOCABULARY if place % 8 else (place + 1) % VOCABULARY for place in places]


def _requests(count: int, proposals: int) -> list[GenerationRequest]:
    options = GenerationOptions(max_tokens=TOKENS, max_proposals=proposals, eos_ids=frozenset())
    return [GenerationRequest(at, (0,), options, RequestRandomness.from_seed(at)) for at in range(count)]


@pytest.mark.parametrize("requests", [1, 8])
@pytest.mark.parametrize(("proposals", "lookahead"), [(0, False), (4, False), (4, True)])
def test_schedule(benchmark: BenchmarkFixture, requests: int, proposals: int, lookahead: bool) -> None:  # noqa: FBT001
    """Plain, reference setting and lookahead, alone and among eight; `turns` is in the extra information."""
    executor, options = CountingExecutor(), MtpSchedulerOptions(lookahead=lookahead, adaptive_lookahead=False)

    def schedule() -> Any:
        return run_requests(executor, _requests(requests, proposals), options=options)

    statistics = benchmark(schedule).statistics()
    assert statistics.requests.emitted == requests * TOKENS
    benchmark.extra_info["turns"] = statistics.turns
