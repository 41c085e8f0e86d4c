"""The small parts on their own: ring, queue, counter, resolution, executor's contract, trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from eredu.contract.errors import EreduError, StatisticsError
from eredu.contract.events import Event, TokensCommitted
from eredu.contract.executor import CommitPlan, ExecutorTraits, VerificationOutcome
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import BranchOutcome, ClipReason, RequestStatistics
from eredu.contract.terminal import FinishReason, TerminalWatch
from eredu.scheduling.action import Action, Turn
from eredu.scheduling.clipping import Depth
from eredu.scheduling.endings import raise_first
from eredu.scheduling.event_queue import EventQueue
from eredu.scheduling.executor_checks import check_block, check_entries, check_outcome, check_promotion
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.phase import BRANCHING, SUBMITTED, TERMINAL, Phase
from eredu.scheduling.request_state import RequestState, Round
from eredu.scheduling.resolution import BranchView, Resolution, resolve_round
from eredu.scheduling.ring import Ring
from eredu.scheduling.schedule_statistics import ScheduleCounter
from eredu_conformance.subjects.table_pairs import Script, table_pairs
from eredu_conformance.subjects.table_schedule import TableSchedule, table_request

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


def state_in(index: int, phase: Phase, depth: int = 2) -> RequestState[Any, Any, Any]:
    request = GenerationRequest(index, (0,), GenerationOptions(), RequestRandomness((0, 0)))
    watch = TerminalWatch(9, ROOM, frozenset())
    current = Round[Any, Any](Depth(depth, ClipReason.REQUEST))
    return RequestState(request, None, watch, AdaptiveLookahead(None), 0.0, phase, round=current)


def ring_of(*states: RequestState[Any, Any, Any], **options: Any) -> Ring[Any, Any, Any]:
    ring = Ring[Any, Any, Any](MtpSchedulerOptions(**options))
    for state in states:
        ring.add(state)
    return ring


def ready(count: int) -> list[RequestState[Any, Any, Any]]:
    return [state_in(index, Phase.READY_TO_SUBMIT) for index in range(count)]


def test_what_is_in_flight_and_what_branches() -> None:
    ring = ring_of(*(state_in(index, phase) for index, phase in enumerate(Phase)))
    assert ring.in_flight == len(SUBMITTED) == 4
    assert ring.branches == len(BRANCHING) == 2


# rule: scheduling.ring, scheduling.in-flight-bound
@pytest.mark.parametrize(
    ("options", "members"),
    [
        ({}, [1, 3, 4, 0]),
        ({"max_group": 1}, [1]),
        ({"max_group": 2}, [1, 3]),
        ({"max_group": 64}, [1, 3, 4, 0]),
        ({"max_in_flight": 3}, [1, 3]),
        ({"max_in_flight": 3, "max_group": 1}, [1]),
        ({"max_in_flight": 16, "max_group": 3}, [1, 3, 4]),
    ],
)
def test_who_is_ready_joins_in_the_order_of_the_ring_as_far_as_the_bounds_allow(
    options: dict[str, int], members: list[int]
) -> None:
    """Request 0 was served last; 2 has nothing to submit, and 5 is in flight."""
    states = ready(6)
    states[2].phase, states[5].phase = Phase.READY_TO_DRAFT, Phase.VERIFICATION_IN_FLIGHT
    ring = ring_of(*states[1:], states[0], **{"max_in_flight": 5, **options})
    turn = ring.next_turn()
    assert turn is not None
    assert turn.action is Action.SUBMIT
    assert [state.request.index for state in turn.members] == members
    others = [index for index in (2, 3, 4, 5, 0) if index not in members]
    assert [state.request.index for state in ring] == [*others, *members]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.READY_TO_SUBMIT])
def test_any_other_action_serves_one_request(phase: Phase) -> None:
    ring = ring_of(state_in(0, phase), *(state_in(index, phase) for index in (1, 2)), max_in_flight=8)
    turn = ring.next_turn()
    served = [] if turn is None else [state.request.index for state in turn.members]
    assert served == ([] if phase in TERMINAL else [0])


def test_a_ring_in_which_nobody_can_act_stays_as_it_is() -> None:
    states = ready(2)
    ring = ring_of(*states, state_in(2, Phase.VERIFICATION_IN_FLIGHT), max_in_flight=1)
    ring.remove(next(state for state in ring if state.request.index == 2))
    object.__setattr__(ring._options, "max_in_flight", 0)
    assert ring.next_turn() is None
    assert list(ring) == states


def test_the_names_that_statistics_publish() -> None:
    names = {"PREFILL": "prefill", "DRAFT": "draft", "SUBMIT": "submit"}
    names |= {"BEGIN_BRANCH": "begin_branch", "BRANCH": "branch", "RESOLVE": "resolve"}
    assert {action.name: action.value for action in Action} == names
    table = TableSchedule(*table_pairs()["near"], options=MtpSchedulerOptions(adaptive_lookahead=False))
    table.run(table_request(0, [0, 1], GenerationOptions(max_tokens=12, max_proposals=2)))
    assert set(table.scheduler.statistics().to_json()["actions"]) == set(names.values())


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("other", [Phase.READY_TO_DRAFT, *sorted(SUBMITTED)])
@pytest.mark.parametrize("depth", [0, 2])
def test_a_draft_beside_the_verification_of_another_request_is_counted(
    action: Action, other: Phase, depth: int
) -> None:
    acting = state_in(0, Phase.READY_TO_DRAFT, depth)
    counter = ScheduleCounter(lambda: 0.0)
    counter.count(Turn(action, (acting,)), ring_of(acting, state_in(1, other)))
    drafts = action is Action.BRANCH or (action is Action.DRAFT and depth > 0)
    statistics = counter.statistics([])
    assert statistics.cross_request_drafts == (drafts and other in SUBMITTED)
    assert statistics.actions == ((action.value, 1),)


def test_a_request_s_own_verification_is_no_other() -> None:
    acting = state_in(0, Phase.LOOKAHEAD_DRAFTING)
    counter = ScheduleCounter(lambda: 0.0)
    counter.count(Turn(Action.BRANCH, (acting,)), ring_of(acting))
    assert counter.statistics([]).cross_request_drafts == 0


def test_groups_are_counted_once_and_the_largest_is_told() -> None:
    states = ready(3)
    counter = ScheduleCounter(lambda: 0.0)
    for size in (2, 3, 1):
        counter.count(Turn(Action.SUBMIT, tuple(states[:size])), ring_of(*states))
    statistics = counter.statistics([])
    assert (statistics.turns, statistics.submissions, statistics.peak_group) == (3, 3, 3)
    assert statistics.actions == (("submit", 3),)


def test_peaks_and_times_of_a_schedule() -> None:
    now_s = 5.0
    counter = ScheduleCounter(lambda: now_s)
    states = [state_in(0, Phase.LOOKAHEAD_READY), state_in(1, Phase.VERIFICATION_IN_FLIGHT), state_in(2, Phase.PREFILL)]
    ring = ring_of(*states)
    counter.observe(ring)
    assert counter.statistics([]).elapsed_s == 0
    counter.count(Turn(Action.PREFILL, (states[2],)), ring)
    now_s = 7.5
    counter.observe(ring_of(states[0]))
    counter.end(FinishReason.CANCELLED)
    counter.end(FinishReason.FAILED)
    statistics = counter.statistics([RequestStatistics(prompt_tokens=2), RequestStatistics(prompt_tokens=3)])
    assert (statistics.peak_live, statistics.peak_in_flight, statistics.peak_branches) == (3, 2, 1)
    assert (statistics.turns, statistics.cancelled, statistics.elapsed_s) == (1, 1, 2.5)
    assert (statistics.submissions, statistics.peak_group) == (0, 0)
    assert statistics.requests.prompt_tokens == 5


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


def test_the_trace_tells_every_step_of_a_round_in_its_order() -> None:
    script = Script(64, (60, 61), tuple(range(60)))
    options = GenerationOptions(max_tokens=6, max_proposals=2, sampling=SamplingOptions())
    table = TableSchedule(script.target, script.drafter(), options=MtpSchedulerOptions())
    table.run(table_request(4, script.prompt, options))
    first = ["draft", "submit", "branch", "resolve", "commit", "publish"]
    second = ["submit", "resolve", "commit", "publish", "close"]
    assert [entry["event"] for entry in table.trace] == ["open", "prefill", *first, *second]
    assert {entry["request"] for entry in table.trace} == {4}
    turns = [entry["turn"] for entry in table.trace]
    assert turns == sorted(turns)
    entries = {entry["event"]: entry for entry in table.trace[:8]}
    assert entries["open"]["rule"] == "greedy"
    assert (entries["open"]["budget"], entries["open"]["prompt_length"]) == (6, 2)
    assert (entries["draft"]["k"], entries["draft"]["clip"], entries["draft"]["reused"]) == (2, "request", 0)
    assert (entries["submit"]["position"], entries["submit"]["rows"]) == (0, 3)
    assert (entries["branch"]["planned"], entries["branch"]["drafted"]) == (3, 3)
    assert entries["resolve"]["tokens"] == entries["resolve"]["emitted"] == [0, 1, 2]
    assert entries["resolve"]["branch"] == "promoted"
    assert (entries["commit"]["kept"], entries["commit"]["cache_length"]) == (3, 2 - 1 + 3)
    assert entries["publish"]["tokens"] == [0, 1, 2]
    assert table.trace[-1]["finish"] == "length"
    assert table.trace[-1]["statistics"]["emitted"] == 6
