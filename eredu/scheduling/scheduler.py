"""The scheduler: fair turns over the requests of one call, and the only place where anything is published.

One turn is one action: of one request, or the submission of a group of requests that are ready together. Requests
stand in a ring; each turn serves the next one that can act, so a request waits at most one turn of every other. Each
member of a group is resolved, cancelled and failed alone. Nothing here reads a clock to decide, and nothing knows of
arrays: the executor carries out, the scheduler decides, commits with one number, installs, and then tells. It belongs
to one thread; callbacks and signal handlers of that thread may add and cancel requests, and may not take turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Generic

from eredu.contract.errors import EreduError, OptionError, SchedulerStalledError
from eredu.contract.events import EventSink
from eredu.contract.executor import BlockT, SequenceT, SpeculativeExecutor, VerificationT
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.scheduling.action import Turn
from eredu.scheduling.actions import RequestActions
from eredu.scheduling.admission import admit
from eredu.scheduling.endings import RequestEndings, raise_first
from eredu.scheduling.event_queue import EventQueue
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.phase import Phase
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.ring import Ring
from eredu.scheduling.schedule_statistics import ScheduleCounter
from eredu.scheduling.trace import Tracer, TraceSink


class SpeculativeScheduler(Generic[SequenceT, BlockT, VerificationT]):
    """Runs requests on one executor to their ends.

    Args:
        executor: Carries out the decisions.
        options: The schedule.
        sink: Called with every event, after the commit that made it true. It may add and cancel requests.
        trace: Called with every action as a JSON-able mapping; None costs nothing.
        clock: Seconds, for the diagnostic times only.
    """

    def __init__(
        self,
        executor: SpeculativeExecutor[SequenceT, BlockT, VerificationT],
        *,
        options: MtpSchedulerOptions | None = None,
        sink: EventSink | None = None,
        trace: TraceSink | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._executor = executor
        self._options = options or MtpSchedulerOptions()
        self._trace = Tracer(trace)
        self._clock = clock
        self._ring = Ring[SequenceT, BlockT, VerificationT](self._options)
        self._states: dict[int, RequestState[SequenceT, BlockT, VerificationT]] = {}
        self._events = EventQueue(sink)
        self._actions = RequestActions(executor, self._options, self._events, self._trace, clock)
        self._counter = ScheduleCounter(clock)
        self._endings = RequestEndings(executor, self._ring, self._events, self._counter, self._trace, clock)
        self._acting = False
        self._cancelling = False

    # ---- requests ------------------------------------------------------------------------------------------------

    def add(self, request: GenerationRequest) -> None:
        """Take in a request. Raises `OptionError` if its prompt does not fit the model."""
        if request.index in self._states:
            raise OptionError(f"request {request.index} was added twice; every request of a call has its own number")
        watch = admit(request, self._executor.traits)
        adaptive = self._options.adaptive_window if self._options.adaptive_lookahead else None
        state = RequestState[SequenceT, BlockT, VerificationT](
            request=request,
            sequence=self._executor.open(request),
            watch=watch,
            adaptive=AdaptiveLookahead(adaptive),
            opened_s=self._clock(),
            statistics=RequestStatistics(
                prompt_tokens=len(request.prompt), requested_depth=request.options.max_proposals
            ),
        )
        self._states[request.index] = state
        self._ring.add(state)
        self._counter.observe(self._ring)
        self._trace.open(state, self._options, self._executor.traits)

    def cancel(self, index: int) -> None:
        """Cancel a request: at once, or from inside a callback as soon as the events of its commit are out.

        A request that has ended stays as it is. Raises `OptionError` for an unknown number.
        """
        self._state(index).cancelling = self._cancelling = True
        self._settle()

    def output(self, index: int) -> tuple[int, ...]:
        """Committed output tokens of a request."""
        return tuple(self._state(index).output)

    def phase(self, index: int) -> Phase:
        """Where a request stands."""
        return self._state(index).phase

    def finish(self, index: int) -> FinishReason | None:
        """Why a request ended; None while it lives."""
        return self._state(index).finish

    def request_statistics(self, index: int) -> RequestStatistics:
        """The counters of a request, balanced as of its last commit."""
        return self._state(index).statistics

    def statistics(self) -> ScheduleStatistics:
        """The counters of the schedule so far."""
        return self._counter.statistics(state.statistics for state in self._states.values())

    @property
    def is_done(self) -> bool:
        """Whether every request has ended and every event is out."""
        return not self._ring and self._events.is_empty

    def _state(self, index: int) -> RequestState[SequenceT, BlockT, VerificationT]:
        if index not in self._states:
            raise OptionError(f"there is no request {index}; this schedule has {sorted(self._states)}")
        return self._states[index]

    # ---- turns ---------------------------------------------------------------------------------------------------

    def run(self) -> ScheduleStatistics:
        """Take turns until every request has ended."""
        while not self.is_done:
            self.turn()
        return self.statistics()

    def turn(self) -> None:
        """Serve the next request that can act; if it submits, those that are ready with it join.

        Raises `SchedulerStalledError` if live requests remain and none can, and `EreduError` inside a callback.
        Whatever an action raises ends its request with reason `failed` (`cancelled` for an interrupt), publishes
        nothing of the round, and is raised again; the next turn tells of that end and other requests go on. A failure
        of one member of a group ends that member; a failure of the whole submission ends every member. Of several
        errors the first is raised, with the others as notes. What the sink raises is raised again too, and ends
        nothing.
        """
        if self._is_busy:
            raise EreduError("a turn was asked for inside a callback of another turn; take turns from outside only")
        self._settle()
        # rule: scheduling.turn-uninterrupted
        turn = self._ring.next_turn()
        if turn is not None:
            self._serve(turn)
            self._settle()
            return
        if self._ring:
            # rule: scheduling.every-request-ends
            phases = {state.request.index: str(state.phase) for state in self._ring}
            raise SchedulerStalledError(f"no request can act, and these are alive: {phases}")

    # rule: scheduling.members-end-alone
    def _serve(self, turn: Turn[SequenceT, BlockT, VerificationT]) -> None:
        self._counter.count(turn, self._ring)
        self._trace.turn = self._counter.turns
        self._acting = True
        errors: list[BaseException] = []
        unserved = deque(turn.members)
        try:
            for work in self._actions.begin(turn):
                errors += self._attempt(unserved[0], work)
                unserved.popleft()
        except BaseException as error:
            errors += self._endings.fail(unserved, error)
        finally:
            self._acting = False
        self._counter.observe(self._ring)
        raise_first(errors)

    def _attempt(
        self, state: RequestState[SequenceT, BlockT, VerificationT], work: Callable[[], FinishReason | None]
    ) -> list[BaseException]:
        """Do a member's part of a turn; return what ended this member alone. An interrupt goes on to the others."""
        try:
            reason = work()
            if reason is not None:
                self._endings.end(state, Phase.COMPLETED, reason)
        except Exception as error:
            return self._endings.fail([state], error)
        return []

    @property
    def _is_busy(self) -> bool:
        """Whether the call comes from inside an action or a callback, so that its effect has to wait."""
        return self._acting or self._events.is_publishing

    # rule: cancellation.from-callback
    def _settle(self) -> None:
        """Publish what is queued and carry out the cancellations that it asks for, until neither is left."""
        if self._is_busy:
            return
        self._events.publish()
        while self._cancelling:
            state = next((state for state in self._ring if state.cancelling), None)
            if state is None:
                self._cancelling = False
                return
            self._acting = True
            try:
                self._endings.cancel(state)
            finally:
                self._acting = False
            self._events.publish()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel what is still alive, so that nothing keeps running, and publish what is left.

        Raises the first error that this meets, with the others as notes, after every request has ended.
        """
        self._cancelling = True
        for state in self._ring:
            state.cancelling = True
        errors: list[BaseException] = []
        while not self._is_busy and not self.is_done:
            try:
                self._settle()
            except BaseException as error:
                errors.append(error)
        raise_first(errors)
