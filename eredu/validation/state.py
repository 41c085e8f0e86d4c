"""The state after a commit: every accepted length forced, and the next rows held against a fresh start.

A block is drafted and verified through the executor that decoding uses, then the commit keeps a number of its rows
that this part chooses, whatever the acceptance rule said. The next row of the target and of the drafter must be those
of a sequence that never speculated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx

from eredu.backend import CommitPlan, GenerationRequest, SpeculativeExecutor
from eredu.engine.sequence import MlxSequence
from eredu.mlx.rows import process_rows
from eredu.options import AcceptanceRule, GenerationOptions, SamplingOptions
from eredu.randomness import RequestRandomness
from eredu.validation.forcing import normalised
from eredu.validation.numerics import feed, total_variation
from eredu.validation.subject import Subject

LENGTHS = (2, 5, 33, 130, 520)
"""Prompt lengths, as far as there is text."""
LONG = 100
"""From this length on only none and all of the proposals are kept."""
LEAST_LIMIT = 1e-5
"""Total variation below which two rows count as one whatever was audited."""
MARGIN = 10.0
"""Limit over the audited tolerance: a missed rollback moves rows by far more."""


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """One forced commit.

    Attributes:
        length: Tokens of the prompt.
        proposals: Proposals of the round.
        accepted: How many of them the commit kept.
        to_prefill: Total variation between the target's next row and that behind a fresh prefill.
        to_replay: The same against a replay of the round in single steps.
        drafter: Total variation between the drafter's next row and that of a fresh sequence.
    """

    length: int
    proposals: int
    accepted: int
    to_prefill: float
    to_replay: float
    drafter: float


@dataclass(frozen=True, kw_only=True)
class StateReport:
    """All of them.

    Attributes:
        rows: The forced commits.
        limit: Total variation above which a target's row is another one.
    """

    rows: tuple[StateRow, ...]
    limit: float

    @property
    def violations(self) -> tuple[StateRow, ...]:
        """Commits behind which the target goes on from another state."""
        return tuple(row for row in self.rows if not max(row.to_prefill, row.to_replay) <= self.limit)

    @property
    def drafter_strays(self) -> tuple[StateRow, ...]:
        """Commits behind which the drafter does: no loss of exactness, but of acceptance."""
        return tuple(row for row in self.rows if not row.drafter <= self.limit)

    @property
    def sentence(self) -> str:
        """In words."""
        if not self.rows:
            return "no text was long enough to force a commit"
        worst = max(max(row.to_prefill, row.to_replay) for row in self.rows)
        text = f"{len(self.rows)} forced commits, the next rows within a total variation of {worst:.1e}"
        if self.violations:
            row = self.violations[0]
            text = (
                f"{len(self.violations)} of {len(self.rows)} forced commits leave another state: first at "
                f"{row.length} prompt tokens with {row.accepted} of {row.proposals} accepted, total variation "
                f"{max(row.to_prefill, row.to_replay):.1e} (allowed: {self.limit:.1e})"
            )
        if self.drafter_strays:
            text += f"; the drafter goes on from another state behind {len(self.drafter_strays)} of them"
        return text

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            "text": self.sentence,
            "limit": self.limit,
            "violations": len(self.violations),
            "rows": [asdict(row) for row in self.rows],
        }


def check_state(subject: Subject, text: Sequence[int], *, tolerance: float) -> StateReport:
    """Force every accepted length at each prompt length that the text has.

    Args:
        subject: What decodes.
        text: Token ids.
        tolerance: The audited tolerance.
    """
    lengths = [length for length in LENGTHS if length + subject.depth + 2 <= len(text)]
    visitor = _Forcing(subject, text, lengths or [min(2, len(text))])
    rows = subject.model.backend.lend_speculative(subject.assistant, visitor)
    return StateReport(rows=tuple(rows), limit=max(LEAST_LIMIT, MARGIN * tolerance))


@dataclass(frozen=True)
class _Forcing:
    """Receives the executor of decoding, and forces commits on it."""

    subject: Subject
    text: Sequence[int]
    lengths: Sequence[int]

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> list[StateRow]:
        rows = []
        for length in self.lengths:
            depth = min(self.subject.depth, executor.traits.max_proposals)
            accepted = range(depth + 1) if length < LONG else sorted({0, depth})
            found = (self._force(executor, length, count) for count in accepted)
            rows += [row for row in found if row is not None]
        return rows

    def _force(self, executor: SpeculativeExecutor[Any, Any, Any], length: int, accepted: int) -> StateRow | None:
        """One commit of `accepted` proposals; None where a round has fewer."""
        prompt = tuple(self.text[:length])
        sequence = self._open(executor, prompt)
        context = self.subject.target.context
        count = max(0, min(self.subject.depth, executor.traits.max_proposals, context - length - 2))
        if length < 2 and executor.traits.needs_hidden:
            count = 0
        if accepted > count:
            executor.close(sequence)
            return None
        block = executor.draft(sequence, count, None, None)
        more = False
        outcome = executor.wait(sequence, executor.submit(sequence, block, more))
        kept = (*outcome.proposals[:accepted], self.text[length % len(self.text)])
        executor.commit(sequence, CommitPlan(kept=len(kept), tokens=kept), None)
        fresh = self._open(executor, (*prompt, *kept))
        drafter = self._drafter_gap(executor, sequence, fresh)
        to_prefill, to_replay = self._target_gaps(sequence, (*prompt, *kept), length)
        executor.close(sequence)
        executor.close(fresh)
        return StateRow(
            length=length,
            proposals=count,
            accepted=accepted,
            to_prefill=to_prefill,
            to_replay=to_replay,
            drafter=drafter,
        )

    def _open(self, executor: SpeculativeExecutor[Any, Any, Any], prompt: tuple[int, ...]) -> MlxSequence:
        options = GenerationOptions(
            sampling=SamplingOptions(temperature=1.0),
            acceptance=AcceptanceRule.REJECTION,
            max_proposals=self.subject.options.max_proposals,
        )
        sequence: MlxSequence = executor.open(GenerationRequest(0, prompt, options, RequestRandomness.from_seed(1)))
        while executor.prefill(sequence, 512):
            pass
        return sequence

    def _drafter_gap(
        self, executor: SpeculativeExecutor[Any, Any, Any], sequence: MlxSequence, fresh: MlxSequence
    ) -> float:
        blocks = [executor.draft(each, 1, None, None) for each in (sequence, fresh)]
        one, other = (normalised(block.scores[0]) for block in blocks)
        return float(total_variation(one, other)[0])

    def _target_gaps(self, sequence: MlxSequence, tokens: tuple[int, ...], length: int) -> tuple[float, float]:
        target, sampling = self.subject.target, SamplingOptions(temperature=1.0)
        leading = mx.array([tokens[-1]], dtype=mx.uint32)
        row = target.fit(sequence.target.feed(target.model, leading))
        sequence.target.rollback(len(tokens) - 1)
        gaps = []
        for start in (len(tokens) - 1, length - 1):
            other = feed(target, tokens, start=start, width=1)[-1:]
            one, two = (normalised(process_rows(each, sampling)) for each in (row, other))
            gaps.append(float(total_variation(one, two)[0]))
        return gaps[0], gaps[1]
