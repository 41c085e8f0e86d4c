"""The small parts on their own: ring, queue, counter, resolution, executor's contract, trace."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from eredu.contract.errors import EreduError, StatisticsError
from eredu.contract.events import Event, TokensCommitted
from eredu.contract.executor import CommitPlan, ExecutorTraits, VerificationOutcome
from eredu.contract.statistics import BranchOutcome, ClipReason, RequestStatistics
from eredu.contract.terminal import TerminalWatch
from eredu.scheduling.clipping import Depth
from eredu.scheduling.endings import raise_first
from eredu.scheduling.event_queue import EventQueue
from eredu.scheduling.executor_checks import check_block, check_entries, check_outcome, check_promotion
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.resolution import BranchView, Resolution, resolve_round

TRAITS = ExecutorTraits(
    vocabulary_size=64, max_proposals=64, target_context=4096, drafter_context=None, exact_promotion=True
)

ROOM = TRAITS.target_context


@dataclass
class Block:
    count: int
    at_grammar_end: bool = False


def told(position: int) -> TokensCommitted:
    return TokensCommitted(0, position, (position,))


# rule: events.append-only
def test_the_queue_tells_in_order_and_never_one_event_inside_another() -> None:
    heard: list[Event] = []

    def sink(event: Event) -> None:
        heard.append(event)
        assert queue.is_publishing
        if event == told(0):
            queue.put(told(2))
            queue.publish()
            assert heard == [told(0)]

    queue = EventQueue(sink)
    queue.put(told(0))
    queue.put(told(1))
    queue.publish()
    assert heard == [told(0), told(1), told(2)]
    assert queue.is_empty
    assert not queue.is_publishing


def test_the_queue_goes_on_behind_an_event_whose_sink_raised() -> None:
    heard: list[Event] = []

    def sink(event: Event) -> None:
        heard.append(event)
        if event == told(1):
            raise ValueError("sink")

    queue = EventQueue(sink)
    for position in range(3):
        queue.put(told(position))
    with pytest.raises(ValueError, match="sink"):
        queue.publish()
    assert (heard, queue.is_empty, queue.is_publishing) == ([told(0), told(1)], False, False)
    queue.publish()
    assert heard == [told(0), told(1), told(2)]


def test_a_queue_without_a_sink_forgets() -> None:
    queue = EventQueue(None)
    queue.put(told(0))
    queue.publish()
    assert queue.is_empty


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_group_needs_an_entry_for_each_member(count: int) -> None:
    check_entries(2, [object(), RuntimeError()])
    with pytest.raises(EreduError, match=f"group of 2 with {count} entries"):
        check_entries(2, [object()] * count)


def test_of_several_errors_the_first_is_raised_and_an_interrupt_before_all() -> None:
    first, second, interrupt = ValueError("first"), TypeError("second"), KeyboardInterrupt()
    raise_first([])
    errors: list[BaseException] = [first, second]
    with pytest.raises(ValueError, match="first") as caught:
        raise_first(errors)
    assert errors == []
    assert caught.value.__notes__ == ["another request raised as well: TypeError('second')"]
    with pytest.raises(KeyboardInterrupt):
        raise_first([second, interrupt])


def resolve(
    accepted: int,
    *,
    guess: int | None = None,
    eos: frozenset[int] = frozenset(),
    remaining: int = 20,
    adaptive: AdaptiveLookahead = AdaptiveLookahead(2),  # noqa: B008
) -> Resolution:
    """A round of proposals 10, 11, 12 that ends in 19, with a branch of 4 tokens where a guess is given."""
    return resolve_round(
        outcome=VerificationOutcome((10, 11, 12), accepted, 19),
        depth=Depth(3, ClipReason.REQUEST),
        branch=None if guess is None else BranchView(4, 4, lambda: guess),
        watch=TerminalWatch(remaining, ROOM, eos),
        adaptive=adaptive,
        statistics=RequestStatistics(),
        requested=3,
        committed=5,
        traits=TRAITS,
    )


# rule: verify.first-rejection-ends, bonus.after-full-acceptance
@pytest.mark.parametrize("accepted", range(4))
def test_a_round_emits_what_was_accepted_and_one_token_of_the_target(accepted: int) -> None:
    resolution = resolve(accepted)
    emitted = (*(10, 11, 12)[:accepted], 19)
    assert resolution.plan == CommitPlan(kept=accepted + 1, tokens=emitted)
    assert resolution.walk.emitted == emitted
    assert resolution.next_depth == Depth(3, ClipReason.REQUEST)
    counters = resolution.statistics
    assert (counters.drafted, counters.accepted, counters.target_tokens) == (3, accepted, 1)
    assert (counters.rejected, counters.unexamined) == ((1, 2 - accepted) if accepted < 3 else (0, 0))
    assert resolution.branch.outcome is BranchOutcome.NONE


@pytest.mark.parametrize("accepted", range(4))
@pytest.mark.parametrize("last", range(3))
def test_what_follows_a_terminal_proposal_was_never_examined(accepted: int, last: int) -> None:
    resolution = resolve(accepted, guess=19, eos=frozenset({10 + last}))
    counters = resolution.statistics
    if last >= accepted:
        assert resolution.walk.finish is None
        return
    assert resolution.walk.emitted == (10, 11, 12)[: last + 1]
    assert resolution.plan.kept == last + 1
    assert (counters.accepted, counters.rejected, counters.target_tokens) == (last + 1, 0, 0)
    assert counters.unexamined == 3 - last - 1
    assert resolution.next_depth is None
    assert resolution.branch.outcome is BranchOutcome.DROPPED
    assert not resolution.branch.compared


@pytest.mark.parametrize(
    ("accepted", "guess", "eos", "remaining", "promoted"),
    [
        (3, 19, frozenset(), 20, 3),
        (3, 19, frozenset(), 7, 2),
        (3, 19, frozenset(), 5, 0),
        (3, 18, frozenset(), 20, None),
        (2, 19, frozenset(), 20, None),
        (3, 19, frozenset({19}), 20, None),
        (3, 19, frozenset({12}), 20, None),
        (3, 19, frozenset(), 4, None),
    ],
)
def test_a_branch_is_promoted_as_far_as_the_next_round_has_room(
    accepted: int, guess: int, eos: frozenset[int], remaining: int, promoted: int | None
) -> None:
    resolution = resolve(accepted, guess=guess, eos=eos, remaining=remaining)
    assert resolution.plan.promoted == promoted
    counters = resolution.statistics
    assert counters.lookahead_drafted == 4
    assert counters.lookahead_discarded == (4 if promoted is None else 3 - promoted)
    assert resolution.adaptive.resolved == 1
    assert resolution.adaptive.discarded == (4 if promoted is None else 3 - promoted)


def test_the_guess_is_read_only_where_it_decides() -> None:
    def unread() -> int:
        raise AssertionError("the guess was read although it decides nothing")

    resolution = resolve_round(
        outcome=VerificationOutcome((10, 11), 1, 19),
        depth=Depth(2, ClipReason.REQUEST),
        branch=BranchView(3, 3, unread),
        watch=TerminalWatch(9, ROOM, frozenset()),
        adaptive=AdaptiveLookahead(None),
        statistics=RequestStatistics(),
        requested=2,
        committed=5,
        traits=TRAITS,
    )
    assert resolution.branch.outcome is BranchOutcome.DROPPED


# rule: commit.on-copies
def test_a_resolution_moves_nothing_that_it_was_given() -> None:
    watch, counters = TerminalWatch(9, ROOM, frozenset()), RequestStatistics()
    adaptive = AdaptiveLookahead(1)
    resolution = resolve(1, guess=3, adaptive=adaptive)
    assert (adaptive.enabled, resolution.adaptive.enabled) == (True, False)
    assert resolution.statistics.lookahead_disabled == 1
    assert (watch, counters) == (TerminalWatch(9, ROOM, frozenset()), RequestStatistics())


def test_statistics_out_of_balance_stop_the_round_before_its_commit() -> None:
    with pytest.raises(StatisticsError, match="emitted = accepted"):
        resolve_round(
            outcome=VerificationOutcome((), 0, 19),
            depth=Depth(0, ClipReason.BUDGET),
            branch=None,
            watch=TerminalWatch(9, ROOM, frozenset()),
            adaptive=AdaptiveLookahead(None),
            statistics=RequestStatistics(emitted=1),
            requested=2,
            committed=5,
            traits=TRAITS,
        )


@pytest.mark.parametrize(
    ("block", "wanted", "sound"),
    [
        (Block(3), 3, True),
        (Block(2), 3, False),
        (Block(4), 3, False),
        (Block(2, at_grammar_end=True), 3, True),
        (Block(3, at_grammar_end=True), 3, True),
        (Block(4, at_grammar_end=True), 3, False),
        (Block(0), 0, True),
    ],
)
def test_the_length_of_a_block_is_what_was_asked_or_ends_the_grammar(block: Block, wanted: int, sound: bool) -> None:
    if sound:
        check_block("block", block, wanted)
        return
    with pytest.raises(EreduError, match=f"block of {block.count} tokens where {wanted}"):
        check_block("block", block, wanted)


@pytest.mark.parametrize(
    ("outcome", "sound"),
    [
        (VerificationOutcome((1, 2), 0, 5), True),
        (VerificationOutcome((1, 2), 2, 5), True),
        (VerificationOutcome((1, 2), 3, 5), False),
        (VerificationOutcome((1, 2), -1, 5), False),
        (VerificationOutcome((1,), 1, 5), False),
        (VerificationOutcome((1, 2, 3), 1, 5), False),
    ],
)
def test_an_outcome_is_that_of_its_block(outcome: VerificationOutcome, sound: bool) -> None:
    if sound:
        check_outcome(Block(2), outcome)
        return
    with pytest.raises(EreduError, match="of a block that has 2"):
        check_outcome(Block(2), outcome)


@pytest.mark.parametrize(
    ("planned", "promoted", "sound"),
    [
        (None, None, True),
        (0, Block(0), True),
        (2, Block(2), True),
        (2, None, False),
        (None, Block(2), False),
        (2, Block(1), False),
        (0, None, False),
    ],
)
def test_a_commit_gives_back_what_was_planned(planned: int | None, promoted: Block | None, sound: bool) -> None:
    plan = CommitPlan(kept=0, tokens=(), promoted=planned)
    if sound:
        check_promotion(plan, promoted)
        return
    with pytest.raises(EreduError, match=f"promote {planned}"):
        check_promotion(plan, promoted)
