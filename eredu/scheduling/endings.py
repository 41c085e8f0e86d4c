"""How requests end: completed, cancelled, or failed. Each ends alone, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

from eredu.contract.events import RequestFinished, TokensCommitted
from eredu.contract.executor import BlockT, CommitPlan, SequenceT, SpeculativeExecutor, VerificationT
from eredu.contract.terminal import FinishReason
from eredu.scheduling.event_queue import EventQueue
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.ring import Ring
from eredu.scheduling.schedule_statistics import ScheduleCounter
from eredu.scheduling.trace import Tracer


@dataclass(frozen=True, eq=False)
class RequestEndings(Generic[SequenceT, BlockT, VerificationT]):
    """Ends requests: off the ring, their executor's state released, their end counted, traced and queued as an event.

    The clock gives seconds, for the diagnostic times only.
    """

    _executor: SpeculativeExecutor[SequenceT, BlockT, VerificationT]
    _ring: Ring[SequenceT, BlockT, VerificationT]
    _events: EventQueue
    _counter: ScheduleCounter
    _trace: Tracer
    _clock: Callable[[], float]

    def end(self, state: RequestState[SequenceT, BlockT, VerificationT], phase: Phase, reason: FinishReason) -> None:
        """End a request, whatever it was doing."""
        state.enter(phase)
        # rule: cancellation.leaves-no-trace, lookahead.drop-whole
        state.round = None
        state.finish = reason
        state.statistics = state.statistics.closed(self._clock() - state.opened_s)
        self._ring.remove(state)
        self._events.put(RequestFinished(state.request.index, reason, state.statistics))
        self._counter.end(reason)
        try:
            self._trace.close(state)
        finally:
            self._executor.close(state.sequence)

    def cancel(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Cancel a request, waiting first for what it has in flight. What that raises ends it as a failure does."""
        phase, current = state.phase, state.round
        try:
            # rule: cancellation.submitted-waits, cancellation.nothing-submitted-at-once, rollback.exact-length
            if phase in SUBMITTED and current is not None and current.verification is not None:
                self._executor.wait(state.sequence, current.verification)
                self._executor.commit(state.sequence, CommitPlan(kept=0, tokens=()), current.branch)
            state.watch, text = state.watch.take_text(ended=True)
            if text:
                self._events.put(TokensCommitted(state.request.index, len(state.output), (), text))
            self._trace.cancel(state, phase)
            self.end(state, Phase.CANCELLED, FinishReason.CANCELLED)
        except BaseException as error:
            raise_first(self.fail([state], error))

    # rule: commit.failure-changes-nothing, scheduling.members-end-alone
    def fail(
        self, states: Iterable[RequestState[SequenceT, BlockT, VerificationT]], error: BaseException
    ) -> list[BaseException]:
        """End requests whose action raised or was interrupted; return the error, and what interrupted their endings.

        What ending a request raises on top is a note on the error. A request that has ended already stays as it is.
        """
        reason = FinishReason.FAILED if isinstance(error, Exception) else FinishReason.CANCELLED
        errors = [error]
        for state in states:
            try:
                if state.is_live:
                    self.end(state, Phase.CANCELLED, reason)
            except Exception as closing:
                error.add_note(f"ending request {state.request.index} raised as well: {closing!r}")
            except BaseException as interrupt:
                errors.append(interrupt)
        return errors


def raise_first(errors: list[BaseException]) -> None:
    """Raise the first of several errors with the others as notes, an interrupt before all else; without any, return.

    The list is emptied: a traceback that held its own error would keep every request of its frames alive.
    """
    if not errors:
        return
    first = next((error for error in errors if not isinstance(error, Exception)), errors[0])
    for note in [f"another request raised as well: {error!r}" for error in errors if error is not first]:
        first.add_note(note)
    errors.clear()
    try:
        raise first
    finally:
        del first
