"""Faults of eredu's groups: members that get, lose or wait for what is another's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from eredu.contract.executor import Submission, VerificationOutcome
from eredu.contract.terminal import FinishReason
from eredu.drafters.draft_block import MlxBlock
from eredu.engine.executor import MlxExecutor
from eredu.engine.sequence import MlxSequence, MlxVerification
from eredu.mlx.summary import Summary
from eredu.scheduling.actions import RequestActions
from eredu.scheduling.endings import RequestEndings
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.ring import Ring
from eredu_conformance.faults.engine.fault import EngineFault
from eredu_conformance.faults.engine.seam import Wrapped
from eredu_conformance.faults.engine.syntax import Rewritten

_SCHEDULING = "conformance/tests/scheduling"
_MEMBERS = (
    f"{_SCHEDULING}/test_schedule_ring.py::test_who_is_ready_joins_in_the_order_of_the_ring_as_far_as_the_bounds_allow"
)
_GROUPS = f"{_SCHEDULING}/test_schedule_groups.py"
_TRACE = "conformance/tests/trace/test_trace_of_schedules.py::test_a_schedule_s_trace_is_a_run_of_the_machine"
_ALONE = "conformance/tests/engine/test_engine_groups.py::test_a_member_gets_what_it_gets_alone"

Actions = RequestActions[Any, Any, Any]
Endings = RequestEndings[Any, Any, Any]
State = RequestState[Any, Any, Any]
Group = Sequence[Submission[MlxSequence, MlxBlock]]
_Submit = Callable[[MlxExecutor, Group], list[MlxVerification | Exception]]
_Members = Callable[[Actions, Sequence[State]], list[Any]]
_End = Callable[[Endings, State, Phase, FinishReason], None]


def _backwards(right: Callable[[Ring[Any, Any, Any], State], tuple[State, ...]], ring: Any, first: State) -> Any:
    return right(ring, first)[::-1]


def _one_place_on(right: _Members, actions: Actions, members: Sequence[State]) -> list[Any]:
    entries = right(actions, members)
    return [*entries[1:], *entries[:1]]


def _all_or_none(right: _Members, actions: Actions, members: Sequence[State]) -> list[Any]:
    entries = right(actions, members)
    for entry in entries:
        if isinstance(entry, Exception):
            raise entry
    return entries


def _ends_the_others(right: _End, endings: Endings, state: State, phase: Phase, reason: FinishReason) -> None:
    submitted = [other for other in endings._ring if other is not state and other.phase in SUBMITTED]
    right(endings, state, phase, reason)
    if phase is Phase.COMPLETED:
        for other in submitted:
            right(endings, other, Phase.CANCELLED, reason)


def _cancels_the_others(right: Callable[[Endings, State], None], endings: Endings, state: State) -> None:
    together = [other for other in endings._ring if other.phase in SUBMITTED] if state.phase in SUBMITTED else []
    for other in together or [state]:
        right(endings, other)


def _mask_of_the_first(right: _Submit, executor: MlxExecutor, group: Group) -> list[MlxVerification | Exception]:
    states = group[0].block.constraints
    return right(executor, [replace(each, block=replace(each.block, constraints=states)) for each in group])


def _rows_of_the_next(right: _Submit, executor: MlxExecutor, group: Group) -> list[MlxVerification | Exception]:
    entries = right(executor, group)
    started = [entry for entry in entries if isinstance(entry, MlxVerification)]
    summaries = [entry.summary for entry in started]
    for entry, summary in zip(started, [*summaries[1:], *summaries[:1]], strict=True):
        entry.summary = summary
    return entries


@dataclass(frozen=True)
class _Trimmed:
    """A member's summary that accepts as many proposals as the group agrees on."""

    own: Summary
    group: tuple[Summary, ...]
    agree: Callable[[Iterable[int]], int]

    def read(self) -> VerificationOutcome:
        outcome = self.own.read()
        accepted = min(len(outcome.proposals), self.agree(each.read().accepted for each in self.group))
        token = outcome.proposals[accepted] if accepted < outcome.accepted else outcome.token
        return VerificationOutcome(outcome.proposals, accepted, token)


def _trimmed(entries: list[MlxVerification | Exception], agree: Callable[[Iterable[int]], int]) -> None:
    started = [entry for entry in entries if isinstance(entry, MlxVerification)]
    group = tuple(entry.summary for entry in started)
    for entry in started:
        entry.summary = cast(Summary, _Trimmed(entry.summary, group, agree))


def _least(right: _Submit, executor: MlxExecutor, group: Group) -> list[MlxVerification | Exception]:
    entries = right(executor, group)
    _trimmed(entries, min)
    return entries


def _greatest(right: _Submit, executor: MlxExecutor, group: Group) -> list[MlxVerification | Exception]:
    entries = right(executor, group)
    _trimmed(entries, max)
    return entries


FAULTS = (
    EngineFault(
        name="group-is-submitted-backwards",
        rule="scheduling.ring",
        story="The group is a stack: who was ready last is fed first.",
        seam=Wrapped(Ring._join, _backwards),
        killer=_MEMBERS,
    ),
    EngineFault(
        name="group-stays-in-front",
        rule="scheduling.ring",
        story="The members go back to the front of the ring, and are served again before those that waited.",
        seam=Rewritten(Ring._join, "R.extend(G)", "R.extendleft(reversed(G))"),
        killer=_MEMBERS,
    ),
    EngineFault(
        name="group-overruns-the-bound",
        rule="scheduling.in-flight-bound",
        story="The room in flight is counted without the request that the others join.",
        seam=Rewritten(Ring._join, "islice(R, M - 1)", "islice(R, M)"),
        killer=_MEMBERS,
    ),
    EngineFault(
        name="members-get-the-next-one-s-verification",
        rule="scheduling.group-changes-nothing",
        story="The entries of a group come back in another order than its members stand in.",
        seam=Wrapped(RequestActions.submit, _one_place_on),
        killer=f"{_GROUPS}::test_every_bound_on_groups_gives_the_same",
    ),
    EngineFault(
        name="failed-member-fails-its-group",
        rule="scheduling.members-end-alone",
        story="The first exception among the entries is raised, and everybody submitted with it fails.",
        seam=Wrapped(RequestActions.submit, _all_or_none),
        killer=f"{_GROUPS}::test_members_fail_alone_and_the_first_error_tells_of_the_others",
    ),
    EngineFault(
        name="ending-member-ends-its-group",
        rule="scheduling.members-end-alone",
        story="Where a member completes, those still in flight are let go of with it.",
        seam=Wrapped(RequestEndings.end, _ends_the_others),
        killer=_TRACE,
    ),
    EngineFault(
        name="cancelled-member-cancels-its-group",
        rule="scheduling.members-end-alone",
        story="A forward cannot be taken back for one row alone, so all that is in flight is cancelled.",
        seam=Wrapped(RequestEndings.cancel, _cancels_the_others),
        killer=f"{_GROUPS}::test_a_member_that_is_cancelled_in_flight_leaves_the_others",
    ),
    EngineFault(
        name="group-reads-the-mask-of-its-first",
        rule="scheduling.group-changes-nothing",
        story="One mask is made for the forward, from the grammar of the first member.",
        seam=Wrapped(MlxExecutor.submit, _mask_of_the_first),
        killer=_ALONE,
    ),
    EngineFault(
        name="group-reads-the-rows-of-the-next",
        rule="scheduling.group-changes-nothing",
        story="The rows of a member are found by a place that is one too far on.",
        seam=Wrapped(MlxExecutor.submit, _rows_of_the_next),
        killer=_ALONE,
    ),
    EngineFault(
        name="group-accepts-the-least",
        rule="scheduling.members-end-alone",
        story="One cache holds the group, so everybody keeps as many rows as the member that accepted the fewest.",
        seam=Wrapped(MlxExecutor.submit, _least),
        killer=_ALONE,
    ),
    EngineFault(
        name="group-accepts-the-greatest",
        rule="scheduling.members-end-alone",
        story="Everybody keeps as many rows as the member that accepted the most.",
        seam=Wrapped(MlxExecutor.submit, _greatest),
        killer=_ALONE,
    ),
)
"""Faults of groups."""
