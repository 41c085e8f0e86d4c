"""The executor with drafters of the test's own: what it hands over, in which order, and what it takes back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.contract.drafter import DrafterTraits, History, Reads
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan, Submission
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.none import NoDrafter
from eredu.drafters.proposal import propose
from eredu.drafters.target_view import TargetView
from eredu.engine.executor import MlxExecutor
from eredu.engine.mlx_backend import MlxBackend
from eredu.mlx.placement import Placement
from eredu.mlx.taps import recording, tap
from eredu.results import GenerationResult
from eredu.scheduling.scheduler import SpeculativeScheduler

Make = Callable[..., Any]
RULES: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "acceptance": "coupled"},
    {"temperature": 0.9, "acceptance": "rejection"},
    {"temperature": 0.9, "acceptance": "block"},
]
NAMES = ["greedy", "coupled", "rejection", "block"]
NORM = "test-norm"


@dataclass
class Scripted:
    """Proposes the tokens of a script, wrong at some places, and keeps all that it is given.

    Attributes:
        script: Output tokens by position.
        reads: What it declares.
        calls: Names of the calls so far.
        rows: What it was given of the target's hidden rows, by position of the input.
    """

    script: Sequence[int]
    reads: Reads
    calls: list[str] = field(default_factory=list)
    rows: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def traits(self) -> DrafterTraits:
        return DrafterTraits(max_proposals=4, exact_promotion=True)

    def open(self, request: GenerationRequest) -> list[int]:
        self.calls.append("open")
        return []

    def prefill(self, state: list[int], history: History, fed: range, view: TargetView) -> None:
        self._call("prefill", fed.stop, view)
        self._take(fed, view)
        state.append(fed.stop)

    def propose(self, state: list[int], history: History, block: MlxBlock, count: int, view: TargetView) -> None:
        self._call("propose", len(history.tokens) - 1, view)
        with pytest.raises(CapabilityError, match="HIDDEN"):
            _ = view.rows
        self._fill(history, block, count)

    def branch(self, state: list[int], history: History, branch: MlxBlock, count: int, view: TargetView) -> None:
        self._call("branch", len(history.tokens) + len(branch.before), view)
        self._fill(history, branch, count)

    def settle(self, state: list[int], history: History, plan: CommitPlan, view: TargetView) -> None:
        end = len(history.tokens) - 1
        self._call("settle", end, view)
        assert list(plan.tokens) == history.tokens[len(history.tokens) - plan.kept :]
        self._take(range(end - plan.kept, end), view)

    def close(self, state: list[int], history: History) -> None:
        self.calls.append("close")

    def _call(self, name: str, held: int, view: TargetView) -> None:
        self.calls.append(name)
        if Reads.CACHE in self.reads:
            assert view.cache.length == held
            return
        with pytest.raises(CapabilityError, match="CACHE"):
            _ = view.cache

    def _take(self, inputs: range, view: TargetView) -> None:
        if Reads.HIDDEN not in self.reads:
            with pytest.raises(CapabilityError, match="HIDDEN"):
                _ = view.rows
            return
        rows = np.array(view.rows.outputs[NORM][0])
        for row, place in enumerate(inputs):
            assert place not in self.rows, "a row is handed over once"
            self.rows[place] = rows[row]

    def _fill(self, history: History, block: MlxBlock, count: int) -> None:
        while block.wants(count):
            place = history.position + len(block.pending)
            right = self.script[place] if place < len(self.script) else 0
            says = (right + (place % 3 == 2)) % 40
            propose(history, block, 30.0 * (mx.arange(40) == says)[None])


@pytest.fixture
def tapped(llama: Any) -> Any:
    """The pair, the output of the target's final norm recorded."""
    tap(llama[0].model.model.norm, NORM)
    return llama


# rule: commit.one-number, rollback.drafter-follows, draft.from-frontier, scheduling.prefill-in-chunks
@pytest.mark.parametrize("settings", RULES, ids=NAMES)
@pytest.mark.parametrize("reads", [Reads.HISTORY, Reads.HIDDEN, Reads.CACHE, Reads.HIDDEN | Reads.CACHE], ids=str)
def test_a_drafter_is_given_what_it_reads_and_nothing_else(
    tapped: Any, decode: Callable[..., GenerationResult], make_request: Make, settings: dict[str, Any], reads: Reads
) -> None:
    """Each hidden row once, in its place, of tokens that stay; the cache at the boundary; rounds in order."""
    plain = decode(tapped, plain=True, **settings)
    drafter = Scripted(plain.tokens, reads)
    backend = MlxBackend(tapped[0], Placement.choose())
    executor = MlxExecutor(backend.target_model, drafter, backend.placement)
    assert executor.traits.needs_hidden == (reads is not Reads.HISTORY)
    schedule = MtpSchedulerOptions(adaptive_lookahead=False, prefill_chunk=3)
    scheduler = SpeculativeScheduler[Any, Any, Any](executor, options=schedule)
    scheduler.add(make_request(0, prompt=(1, 2, 3, 4, 5), **settings))
    scheduler.run()
    statistics = scheduler.request_statistics(0)
    statistics.check()
    if settings["temperature"] == 0 or settings["acceptance"] == "coupled":
        assert scheduler.output(0) == plain.tokens
        assert statistics.accepted > 5
    assert statistics.rejected > 5
    assert drafter.calls[:3] == ["open", "prefill", "prefill"]
    assert drafter.calls[-2:] == ["settle", "close"]
    assert drafter.calls.count("settle") == statistics.rounds
    assert drafter.calls.count("branch") == statistics.lookahead_blocks
    tokens = [1, 2, 3, 4, 5, *scheduler.output(0)]
    if Reads.HIDDEN in reads:
        assert sorted(drafter.rows) == list(range(len(tokens) - 1))
        with recording() as record:
            mx.eval(tapped[0].model(mx.array([tokens[:-1]])))
        wanted = np.array(record.outputs[NORM][0])
        given = np.stack([drafter.rows[place] for place in range(len(tokens) - 1)])
        np.testing.assert_allclose(given, wanted, atol=1e-4)


# rule: draft.empty-block-is-plain, rollback.exact-length
@pytest.mark.parametrize("settings", RULES, ids=NAMES)
def test_what_ran_ahead_of_an_empty_block_is_taken_back_for_proposals(
    llama: Any, lend: Make, make_request: Make, settings: dict[str, Any]
) -> None:
    """K may change from round to round: behind an empty block, and the plain step started after it, come three."""
    outcomes = []
    for more in (True, False):
        executor = lend(llama, False)
        sequence = executor.open(make_request(0, **settings))
        while executor.prefill(sequence, 2):
            pass
        committed: list[int] = []
        for count in (0, 3, 0, 0, 2):
            block = executor.draft(sequence, count, None, None)
            [verification] = executor.submit([Submission(sequence, block, more=more)])
            outcome = executor.wait(sequence, verification)
            tokens = (*outcome.proposals[: outcome.accepted], outcome.token)
            executor.commit(sequence, CommitPlan(kept=len(tokens), tokens=tokens), None)
            committed += tokens
            ran_ahead = sequence.ahead is not None
            assert ran_ahead == (more and count == 0)
            assert sequence.target.length == len(sequence.tokens) - 1 + ran_ahead
        executor.close(sequence)
        assert sequence.target.length == len(sequence.tokens) - 1
        outcomes.append(committed)
    assert outcomes[0] == outcomes[1]


def test_nothing_runs_ahead_of_a_drafter_that_reads_of_the_target(tapped: Any, make_request: Make) -> None:
    backend = MlxBackend(tapped[0], Placement.choose())
    for reads in (Reads.HISTORY, Reads.HIDDEN, Reads.CACHE):
        executor = MlxExecutor(backend.target_model, Scripted((), reads), backend.placement)
        sequence = executor.open(make_request(0, prompt=(1,)))
        block = executor.draft(sequence, 0, None, None)
        executor.submit([Submission(sequence, block, more=True)])
        assert (sequence.ahead is not None) == (reads is Reads.HISTORY)
        executor.close(sequence)


# rule: capability.no-silent-fallback
def test_no_drafter_refuses_what_it_cannot_do(llama: Any, make_request: Make) -> None:
    backend = MlxBackend(llama[0], Placement.choose())
    executor = MlxExecutor(backend.target_model, NoDrafter(), backend.placement)
    sequence = executor.open(make_request(0))
    with pytest.raises(CapabilityError, match="2 proposals"):
        executor.draft(sequence, 2, None, None)
    with pytest.raises(CapabilityError, match="branch"):
        executor.branch(sequence, executor.draft(sequence, 0, None, None), 2)


# rule: randomness.by-round, promotion.consume-one-reuse-the-rest
def test_a_promoted_branch_continues_at_the_addresses_of_its_round() -> None:
    block = MlxBlock(7)
    for token in (1, 2, 3):
        assert block.next_address == (7, token - 1)
        block.tokens.append(mx.array([token]))
    branch = block.branch()
    addresses = []
    for token in (4, 5, 6):
        addresses.append(branch.next_address)
        branch.tokens.append(mx.array([token]))
    assert addresses == [(7, 3), (11, 0), (11, 1)]
    for count in (0, 1, 2):
        promoted = branch.promoted(count)
        assert promoted.next_address == (11, count)
        assert [token.item() for token in promoted.tokens] == [5, 6][:count]
        assert promoted.pending == promoted.tokens


# rule: rollback.drafter-follows
@pytest.mark.parametrize("settings", RULES, ids=NAMES)
def test_a_copy_of_a_state_at_rest_goes_on_by_itself(
    llama: Any, lend: Make, make_request: Make, settings: dict[str, Any]
) -> None:
    executor = lend(llama, False)
    sequence = executor.open(make_request(0, **settings))
    while executor.prefill(sequence, 2):
        pass
    twin = copy.deepcopy(sequence.drafter)
    first = [token.item() for token in executor.draft(sequence, 4, None, None).tokens]
    sequence.drafter = twin
    assert [token.item() for token in executor.draft(sequence, 4, None, None).tokens] == first
    executor.close(sequence)


# rule: promotion.consume-one-reuse-the-rest, promotion.top-up, rollback.drafter-follows
@pytest.mark.parametrize("promoted", [0, 1, 2, 3])
def test_a_part_of_a_branch_is_promoted_and_topped_up(
    llama: Any, lend: Make, make_request: Make, promoted: int
) -> None:
    """The next round may be shorter than the branch: what the drafter made of the rest of it goes."""
    executor = lend(llama, False)
    sequence = executor.open(make_request(0))
    while executor.prefill(sequence, 8):
        pass
    block = executor.draft(sequence, 2, None, None)
    [verification] = executor.submit([Submission(sequence, block, more=True)])
    branch = executor.branch(sequence, block, 4)
    proposals = executor.wait(sequence, verification).proposals
    tokens = (*proposals, executor.bonus_guess(sequence, branch))
    start = executor.commit(sequence, CommitPlan(kept=3, tokens=tokens, promoted=promoted), branch)
    assert start.count == promoted
    assert sequence.drafter.cache.length == len(sequence.tokens) - 1 + promoted
    topped = executor.draft(sequence, 4, start, None)
    fresh = executor.open(make_request(1, prompt=tuple(sequence.tokens)))
    while executor.prefill(fresh, 8):
        pass
    wanted = executor.draft(fresh, 4, None, None)
    assert [token.item() for token in topped.tokens] == [token.item() for token in wanted.tokens]
    for each in (sequence, fresh):
        executor.close(each)
