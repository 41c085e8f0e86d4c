"""Faults of eredu's schedule: turns, bounds, phases, commits and cancellation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from eredu.contract.errors import SchedulerStalledError
from eredu.contract.options import MtpSchedulerOptions
from eredu.scheduling.actions import RequestActions
from eredu.scheduling.endings import RequestEndings
from eredu.scheduling.phase import TERMINAL, Phase, check_edge
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.ring import Ring
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu.scheduling.trace import Tracer, TraceSink
from eredu_conformance.checks.check import Kind
from eredu_conformance.faults.engine.fault import EngineFault
from eredu_conformance.faults.engine.seam import Wrapped
from eredu_conformance.faults.engine.syntax import Rewritten

_SCHEDULING = "conformance/tests/scheduling"
_FAIR = f"{_SCHEDULING}/test_schedule_fairness.py::test_whoever_can_act_is_served_within_one_turn_of_every_other"
_CANCELLED = f"{_SCHEDULING}/test_schedule_cancel.py::test_cancelled_between_turns"
_TRACE = "conformance/tests/trace/test_trace_of_schedules.py::test_a_schedule_s_trace_is_a_run_of_the_machine"

Scheduler = SpeculativeScheduler[Any, Any, Any]
State = RequestState[Any, Any, Any]
Endings = RequestEndings[Any, Any, Any]
AnyRing = Ring[Any, Any, Any]


def _front_first(right: Callable[[Scheduler], None], scheduler: Scheduler) -> None:
    scheduler._ring._states = deque(sorted(scheduler._ring, key=lambda state: state.request.index))
    right(scheduler)


def _everybody(right: Callable[[Scheduler], None], scheduler: Scheduler) -> None:
    for _ in range(max(1, len(scheduler._ring))):
        if not scheduler.is_done:
            right(scheduler)


def _silent(right: Callable[[Scheduler], None], scheduler: Scheduler) -> None:
    with suppress(SchedulerStalledError):
        right(scheduler)


def _one_more(
    right: Callable[[AnyRing, MtpSchedulerOptions], None], ring: AnyRing, options: MtpSchedulerOptions
) -> None:
    right(ring, replace(options, max_in_flight=options.max_in_flight + 1))


def _any_edge(_right: Callable[[int, Phase, Phase], Phase], request: int, source: Phase, target: Phase) -> Phase:
    return check_edge(request, source, target) if source in TERMINAL else target


def _noted(_right: Callable[[Scheduler, int], None], scheduler: Scheduler, index: int) -> None:
    scheduler._state(index).cancelling = scheduler._cancelling = True


def _forgets_the_flight(right: Callable[[Endings, State], None], endings: Endings, state: State) -> None:
    state.round = None
    right(endings, state)


def _a_row_more(right: Callable[[Tracer, TraceSink | None], None], tracer: Tracer, sink: TraceSink | None) -> None:
    def wrong(event: dict[str, Any]) -> None:
        assert sink is not None
        sink({**event, "cache_length": event["cache_length"] + 1} if event["event"] == "commit" else event)

    right(tracer, None if sink is None else wrong)


FAULTS = (
    EngineFault(
        name="ring-begins-at-the-front",
        rule="scheduling.ring",
        story="The scheduler looks for an actor from the front of its list each time, and starves the rest.",
        seam=Wrapped(SpeculativeScheduler.turn, _front_first),
        killer=_FAIR,
    ),
    EngineFault(
        name="turn-serves-everybody",
        rule="scheduling.turn-uninterrupted",
        story="A turn goes on through the ring, so that actions of several requests cannot be told apart or bounded.",
        seam=Wrapped(SpeculativeScheduler.turn, _everybody),
        killer=_FAIR,
    ),
    EngineFault(
        name="branch-bound-is-inclusive",
        rule="lookahead.bounded",
        story="One branch more than allowed, because the bound was compared before the new one was counted.",
        seam=Rewritten(Ring._next_action, "A < B.max_branches", "A <= B.max_branches"),
        killer=f"{_SCHEDULING}/test_schedule_branches.py"
        "::test_a_second_branch_waits_for_nobody_where_branches_are_at_their_bound",
    ),
    EngineFault(
        name="flight-bound-is-inclusive",
        rule="scheduling.in-flight-bound",
        story="One verification more than allowed in flight.",
        seam=Wrapped(Ring.__init__, _one_more),
        killer=f"{_SCHEDULING}/test_schedule_fairness.py::test_bounds_are_reached_when_there_is_work_for_them",
    ),
    EngineFault(
        name="any-edge-is-taken",
        rule="scheduling.phase-edges",
        story="The phase is assigned without asking whether the life cycle has the edge.",
        seam=Wrapped(check_edge, _any_edge),
        killer=f"{_SCHEDULING}/test_schedule_phase.py::test_every_pair_of_phases_is_an_edge_or_an_error_naming_both",
    ),
    EngineFault(
        name="stall-is-silent",
        rule="scheduling.every-request-ends",
        story="A turn in which nobody can act returns, and the caller's loop spins for ever.",
        seam=Wrapped(SpeculativeScheduler.turn, _silent),
        killer=f"{_SCHEDULING}/test_schedule_fairness.py::test_a_schedule_in_which_nobody_can_act_is_an_error_naming_the_living",
    ),
    EngineFault(
        name="cancellation-waits-for-a-turn",
        rule="cancellation.nothing-submitted-at-once",
        story="Cancellation is only noted, and a request that nobody turns any more lives on.",
        seam=Wrapped(SpeculativeScheduler.cancel, _noted),
        killer=_CANCELLED,
    ),
    EngineFault(
        name="cancelled-flight-is-not-rolled-back",
        rule="cancellation.submitted-waits",
        story="A cancelled request is closed while its verification still writes into the cache.",
        seam=Wrapped(RequestEndings.cancel, _forgets_the_flight),
        killer=_CANCELLED,
    ),
    EngineFault(
        name="installed-and-told-before-the-commit",
        rule="events.after-commit",
        story="The request's state is installed and its tokens queued as soon as they are known, the cache last.",
        seam=Rewritten(
            RequestActions.resolve,
            "P = E.commit(S, N.plan, B); check_promotion(N.plan, P); T.commit(R, K); return I(R, N, P)",
            "finish = I(R, N, None); P = E.commit(S, N.plan, B); T.commit(R, K)\n"
            "if R.round is not None: R.round.block = P\n"
            "return finish",
        ),
        killer=_TRACE,
        kind=Kind.TRACE,
    ),
    EngineFault(
        name="cancelled-round-keeps-a-row",
        rule="cancellation.leaves-no-trace",
        story="The leading token of a cancelled round stays in the cache, and is fed again by whoever resumes.",
        seam=Rewritten(RequestEndings.cancel, "CommitPlan(kept=0, tokens=T)", "CommitPlan(kept=1, tokens=T)"),
        killer=_CANCELLED,
        kind=Kind.STATEFUL,
    ),
    EngineFault(
        name="output-grows-where-it-is-resolved",
        rule="commit.on-copies",
        story="The output grows where it is resolved, and a commit that raises leaves tokens that no cache holds.",
        seam=Rewritten(
            RequestActions.resolve, "T.resolve(S, O, N)", "(S.output.extend(N.walk.emitted), T.resolve(S, O, N))"
        ),
        killer=_TRACE,
    ),
    EngineFault(
        name="trace-tells-the-cache-of-the-plan",
        rule="commit.one-number",
        story="The trace tells the length that the cache had while the verification was in flight.",
        seam=Wrapped(Tracer.__init__, _a_row_more),
        killer=_TRACE,
        kind=Kind.TRACE,
    ),
)
"""Faults of the schedule."""
