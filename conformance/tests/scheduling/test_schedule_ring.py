"""Whose turn it is, who joins, and what is counted of it."""

from __future__ import annotations

from typing import Any

import pytest

from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import ClipReason, RequestStatistics
from eredu.contract.terminal import FinishReason, TerminalWatch
from eredu.scheduling.action import Action, Turn
from eredu.scheduling.clipping import Depth
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.phase import BRANCHING, SUBMITTED, TERMINAL, Phase
from eredu.scheduling.request_state import RequestState, Round
from eredu.scheduling.ring import Ring
from eredu.scheduling.schedule_statistics import ScheduleCounter
from eredu_conformance.harness.table_pairs import table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request


def state_in(index: int, phase: Phase, depth: int = 2) -> RequestState[Any, Any, Any]:
    request = GenerationRequest(index, (0,), GenerationOptions(), RequestRandomness((0, 0)))
    watch = TerminalWatch(9, 64, frozenset())
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
