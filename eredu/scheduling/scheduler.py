"""The scheduler: fair turns over the requests of one call, and the only place where anything is published.

One turn is one action of one request. Requests stand in a ring; each turn serves the next one that can act, so a
request waits at most one action of every other. Nothing here reads a clock to decide, and nothing knows of arrays:
the executor carries out, the scheduler decides, commits with one number, installs, and then tells. It belongs to one
thread; callbacks and signal handlers of that thread may add and cancel requests, and may not take turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Generic

from eredu.contract.errors import EreduError, OptionError, SchedulerStalledError
from eredu.contract.events import EventSink, RequestFinished, TokensCommitted
from eredu.contract.executor import BlockT, CommitPlan, SequenceT, SpeculativeExecutor, VerificationT
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.scheduling.actions import RequestActions
from eredu.scheduling.admission import admit
from eredu.scheduling.event_queue import Outbox
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu.scheduling.request_state import RequestRecord
from eredu.scheduling.schedule_statistics import ScheduleLedger
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
        self._ring: deque[RequestRecord[SequenceT, BlockT, VerificationT]] = deque()
        self._records: dict[int, RequestRecord[SequenceT, BlockT, VerificationT]] = {}
        self._outbox = Outbox(sink)
        self._actions = RequestActions(executor, self._options, self._outbox, self._trace, clock)
        self._acting = False
        self._cancelling = False
        self._ledger = ScheduleLedger(clock)

    # ---- requests ------------------------------------------------------------------------------------------------

    def add(self, request: GenerationRequest) -> None:
        """Take in a request. Raises `OptionError` if its prompt does not fit the model."""
        if request.index in self._records:
            raise OptionError(f"request {request.index} was added twice; every request of a call has its own number")
        watch = admit(request, self._executor.traits)
        adaptive = self._options.adaptive_window if self._options.adaptive_lookahead else None
        record = RequestRecord[SequenceT, BlockT, VerificationT](
            request=request,
            sequence=self._executor.open(request),
            watch=watch,
            adaptive=AdaptiveLookahead(adaptive),
            opened_s=self._clock(),
            statistics=RequestStatistics(
                prompt_tokens=len(request.prompt), requested_depth=request.options.max_proposals
            ),
        )
        self._records[request.index] = record
        self._ring.append(record)
        self._ledger.observe(self._ring)
        self._trace.open(record, self._options, self._executor.traits)

    def cancel(self, index: int) -> None:
        """Cancel a request: at once, or from inside a callback as soon as the events of its commit are out.

        A request that has ended stays as it is. Raises `OptionError` for an unknown number.
        """
        self._record(index).cancelling = self._cancelling = True
        self._settle()

    def output(self, index: int) -> tuple[int, ...]:
        """Committed output tokens of a request."""
        return tuple(self._record(index).output)

    def phase(self, index: int) -> Phase:
        """Where a request stands."""
        return self._record(index).phase

    def finish(self, index: int) -> FinishReason | None:
        """Why a request ended; None while it lives."""
        return self._record(index).finish

    def request_statistics(self, index: int) -> RequestStatistics:
        """The books of a request, balanced as of its last commit."""
        return self._record(index).statistics

    def statistics(self) -> ScheduleStatistics:
        """The books of the schedule so far."""
        return self._ledger.statistics(record.statistics for record in self._records.values())

    @property
    def is_done(self) -> bool:
        """Whether every request has ended and every event is out."""
        return not self._ring and self._outbox.is_empty

    def _record(self, index: int) -> RequestRecord[SequenceT, BlockT, VerificationT]:
        if index not in self._records:
            raise OptionError(f"there is no request {index}; this schedule has {sorted(self._records)}")
        return self._records[index]

    # ---- turns ---------------------------------------------------------------------------------------------------

    def run(self) -> ScheduleStatistics:
        """Take turns until every request has ended."""
        while not self.is_done:
            self.turn()
        return self.statistics()

    def turn(self) -> None:
        """Serve the next request that can act.

        Raises `SchedulerStalledError` if live requests remain and none can, and `EreduError` inside a callback.
        Whatever an action raises ends its request with reason `failed` (`cancelled` for an interrupt), publishes
        nothing of the round, and is raised again; the next turn tells of that end and other requests go on. What the
        sink raises is raised again too, and ends nothing.
        """
        if self._is_busy:
            raise EreduError("a turn was asked for inside a callback of another turn; take turns from outside only")
        self._settle()
        # rule: scheduling.ring, scheduling.one-action-a-turn, scheduling.requests-independent
        for _ in range(len(self._ring)):
            record = self._ring[0]
            self._ring.rotate(-1)
            action = self._actions.enabled(record, self._ring)
            if action is not None:
                self._serve(record, action)
                self._settle()
                return
        if self._ring:
            # rule: scheduling.every-request-ends
            phases = {record.request.index: str(record.phase) for record in self._ring}
            raise SchedulerStalledError(f"no request can act, and these are alive: {phases}")

    def _serve(
        self,
        record: RequestRecord[SequenceT, BlockT, VerificationT],
        action: Callable[[RequestRecord[SequenceT, BlockT, VerificationT]], FinishReason | None],
    ) -> None:
        self._ledger.count(action.__name__, record, self._ring)
        self._trace.turn = self._ledger.turns
        self._acting = True
        try:
            reason = action(record)
            if reason is not None:
                self._end(record, Phase.COMPLETED, reason)
        except BaseException as error:
            self._fail(record, error)
            raise
        finally:
            self._acting = False
        self._ledger.observe(self._ring)

    @property
    def _is_busy(self) -> bool:
        """Whether the call comes from inside an action or a callback, so that its effect has to wait."""
        return self._acting or self._outbox.is_publishing

    # rule: cancellation.from-callback
    def _settle(self) -> None:
        """Publish what is queued and carry out the cancellations that it asks for, until neither is left."""
        if self._is_busy:
            return
        self._outbox.publish()
        while self._cancelling:
            record = next((record for record in self._ring if record.cancelling), None)
            if record is None:
                self._cancelling = False
                return
            self._cancel(record)
            self._outbox.publish()

    # ---- ends ----------------------------------------------------------------------------------------------------

    def _cancel(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        phase, current = record.phase, record.round
        self._acting = True
        try:
            # rule: cancellation.submitted-waits, cancellation.nothing-submitted-at-once, rollback.exact-length
            if phase in SUBMITTED and current is not None and current.verification is not None:
                self._executor.wait(record.sequence, current.verification)
                self._executor.commit(record.sequence, CommitPlan(kept=0, tokens=()), current.branch)
            record.watch, text = record.watch.take_text(ended=True)
            if text:
                self._outbox.put(TokensCommitted(record.request.index, len(record.output), (), text))
            self._trace.cancel(record, phase)
            self._end(record, Phase.CANCELLED, FinishReason.CANCELLED)
        except BaseException as error:
            self._fail(record, error)
            raise
        finally:
            self._acting = False

    # rule: commit.failure-changes-nothing
    def _fail(self, record: RequestRecord[SequenceT, BlockT, VerificationT], error: BaseException) -> None:
        """End a request whose action raised or was interrupted; what ending it raises on top is noted on the error."""
        if not record.is_live:
            return
        reason = FinishReason.FAILED if isinstance(error, Exception) else FinishReason.CANCELLED
        try:
            self._end(record, Phase.CANCELLED, reason)
        except Exception as closing:
            error.add_note(f"ending request {record.request.index} raised as well: {closing!r}")

    def _end(self, record: RequestRecord[SequenceT, BlockT, VerificationT], phase: Phase, reason: FinishReason) -> None:
        record.enter(phase)
        # rule: cancellation.leaves-no-trace, lookahead.drop-whole
        record.round = None
        record.finish = reason
        record.statistics = record.statistics.closed(self._clock() - record.opened_s)
        self._ring.remove(record)
        self._outbox.put(RequestFinished(record.request.index, reason, record.statistics))
        self._ledger.end(reason)
        try:
            self._trace.close(record)
        finally:
            self._executor.close(record.sequence)

    def close(self) -> None:
        """Cancel what is still alive, so that nothing keeps running, and publish what is left.

        Raises the first error that this meets, after every request has ended.
        """
        self._cancelling = True
        for record in self._ring:
            record.cancelling = True
        errors: list[BaseException] = []
        while not self._is_busy and not self.is_done:
            try:
                self._settle()
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]
