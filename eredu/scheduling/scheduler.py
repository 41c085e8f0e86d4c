"""The scheduler: fair turns over the requests of one call, and the only place where anything is published.

One turn is one action of one request. Requests stand in a ring; each turn serves the next one that can act, so a
request waits at most one action of every other. Nothing here reads a clock to decide, and nothing knows of arrays:
the executor carries out, the scheduler decides, commits with one number, installs, and then tells.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic

from eredu.backend import BlockT, CommitPlan, GenerationRequest, SequenceT, SpeculativeExecutor, VerificationT
from eredu.errors import EreduError, OptionError, SchedulerStalledError
from eredu.events import Event, EventSink, RequestFinished, TokensCommitted
from eredu.options import MtpSchedulerOptions
from eredu.scheduling.admission import admit
from eredu.scheduling.clipping import clip_depth
from eredu.scheduling.ledger import ScheduleLedger, branches, in_flight
from eredu.scheduling.lookahead import AdaptiveLookahead, planned_length
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu.scheduling.record import RequestRecord, Round
from eredu.scheduling.resolution import BranchView, Resolution, resolve_round
from eredu.scheduling.trace import Tracer, TraceSink
from eredu.statistics import RequestStatistics, ScheduleStatistics
from eredu.terminal import FinishReason


class SpeculativeScheduler(Generic[SequenceT, BlockT, VerificationT]):
    """Runs requests on one executor to their ends.

    Args:
        executor: Carries out the decisions.
        options: The schedule.
        sink: Called with every event, after the commit that made it true. It may cancel requests.
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
        self._sink = sink
        self._trace = Tracer(trace)
        self._clock = clock
        self._ring: deque[RequestRecord[SequenceT, BlockT, VerificationT]] = deque()
        self._records: dict[int, RequestRecord[SequenceT, BlockT, VerificationT]] = {}
        self._outbox: deque[Event] = deque()
        self._publishing = False
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
        self._trace.open(record, self._options)

    def cancel(self, index: int) -> None:
        """Cancel a request: at once, or from inside a callback as soon as the events of its commit are out.

        A request that has ended stays as it is. Raises `OptionError` for an unknown number.
        """
        record = self._record(index)
        record.cancelling = record.is_live
        if not self._publishing:
            self._cancel_pending()

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
        return not self._outbox and not any(record.is_live for record in self._records.values())

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

        Raises `SchedulerStalledError` if live requests remain and none can. Whatever an action raises ends its
        request with reason `failed`, publishes nothing of the round, and is raised again; other requests go on.
        """
        self._publish()
        self._cancel_pending()
        for _ in range(len(self._ring)):
            record = self._ring[0]
            self._ring.rotate(-1)
            action = self._action(record)
            if action is not None:
                self._ledger.count(action.__name__.removeprefix("_"), record, self._ring)
                self._trace.turn = self._ledger.turns
                try:
                    action(record)
                except Exception:
                    if record.is_live:
                        self._end(record, Phase.CANCELLED, FinishReason.FAILED)
                    raise
                self._ledger.observe(self._ring)
                self._publish()
                self._cancel_pending()
                return
        if any(record.is_live for record in self._ring):
            phases = {record.request.index: str(record.phase) for record in self._ring}
            raise SchedulerStalledError(f"no request can act, and these are alive: {phases}")

    def _action(
        self, record: RequestRecord[SequenceT, BlockT, VerificationT]
    ) -> Callable[[RequestRecord[SequenceT, BlockT, VerificationT]], None] | None:
        match record.phase:
            case Phase.PREFILL:
                return self._prefill
            case Phase.READY_TO_DRAFT:
                return self._draft
            case Phase.READY_TO_SUBMIT:
                return self._submit if in_flight(self._ring) < self._options.max_in_flight else None
            case Phase.VERIFICATION_IN_FLIGHT:
                return self._resolve if self._planned(record) == 0 else self._begin_branch
            case Phase.LOOKAHEAD_DRAFTING:
                return self._branch
            case Phase.LOOKAHEAD_READY | Phase.RESOLUTION:
                return self._resolve
            case _:
                return None

    # ---- actions -------------------------------------------------------------------------------------------------

    def _prefill(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        left = self._executor.prefill(record.sequence, self._options.prefill_chunk)
        self._trace.prefill(record, left)
        if left == 0:
            self._begin_round(record)
            record.enter(Phase.READY_TO_DRAFT)

    def _begin_round(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        depth = clip_depth(
            record.request.options.max_proposals, self._executor.traits, record.committed, record.watch.remaining
        )
        record.round = Round(depth)

    def _draft(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        current = _current(record)
        promoted = current.block
        started_s = self._clock()
        current.block = self._executor.draft(record.sequence, current.depth.count, promoted, record.watch.constraint)
        current.drafting_s += self._clock() - started_s
        self._trace.draft(record, current.block.count, 0 if promoted is None else promoted.count)
        record.enter(Phase.READY_TO_SUBMIT)

    def _submit(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        current = _current(record)
        block = _block(record)
        more = record.watch.remaining > block.count + 1
        current.verification = self._executor.submit(record.sequence, block, more)
        current.planned = self._plan(record, block.count)
        self._trace.submit(record, block.count + 1)
        record.enter(Phase.VERIFICATION_IN_FLIGHT)

    def _plan(self, record: RequestRecord[SequenceT, BlockT, VerificationT], depth: int) -> int:
        options = record.request.options
        if not self._options.lookahead or not record.adaptive.enabled or _block(record).at_grammar_end:
            return 0
        return planned_length(
            depth,
            options.branch_length,
            options.max_proposals,
            self._executor.traits,
            record.committed,
            record.watch.remaining,
        )

    def _planned(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> int:
        full = branches(self._ring) >= self._options.max_branches
        return 0 if full else _current(record).planned

    def _begin_branch(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        record.enter(Phase.LOOKAHEAD_DRAFTING)

    def _branch(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        current = _current(record)
        started_s = self._clock()
        current.branch = self._executor.branch(record.sequence, _block(record), current.planned)
        current.drafting_s += self._clock() - started_s
        self._trace.branch(record, current.planned, current.branch.count)
        record.enter(Phase.LOOKAHEAD_READY)

    def _resolve(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        if record.phase is not Phase.RESOLUTION:
            record.enter(Phase.RESOLUTION)
        current = _current(record)
        if current.verification is None:
            raise EreduError(f"request {record.request.index} has nothing in flight to resolve")
        started_s = self._clock()
        outcome = self._executor.wait(record.sequence, current.verification)
        waited_s = self._clock() - started_s
        branch = current.branch
        view = None
        if branch is not None:
            view = BranchView(
                current.planned, branch.count, lambda: self._executor.branch_head(record.sequence, branch)
            )
        resolution = resolve_round(
            outcome=outcome,
            depth=current.depth,
            branch=view,
            watch=record.watch,
            adaptive=record.adaptive,
            statistics=record.statistics,
            requested=record.request.options.max_proposals,
            committed=record.committed,
            traits=self._executor.traits,
        )
        self._trace.resolve(record, outcome, resolution)
        promoted = self._executor.commit(record.sequence, resolution.plan, branch)
        self._trace.commit(record, resolution.plan.kept)
        self._install(record, resolution, promoted, waited_s)

    def _install(
        self,
        record: RequestRecord[SequenceT, BlockT, VerificationT],
        resolution: Resolution,
        promoted: BlockT | None,
        waited_s: float,
    ) -> None:
        watch, text = resolution.walk.watch.take_text(ended=resolution.walk.finish is not None)
        statistics = resolution.statistics.with_times(drafting_s=_current(record).drafting_s, waiting_s=waited_s)
        position = len(record.output)
        record.watch = watch
        record.adaptive = resolution.adaptive
        record.statistics = statistics
        record.output.extend(resolution.walk.emitted)
        self._outbox.append(TokensCommitted(record.request.index, position, resolution.walk.emitted, text))
        self._trace.publish(record, resolution.walk)
        if resolution.walk.finish is not None or resolution.next_depth is None:
            self._end(record, Phase.COMPLETED, resolution.walk.finish or FinishReason.LENGTH)
            return
        record.round = Round(resolution.next_depth, promoted)
        full = promoted is not None and promoted.count == resolution.next_depth.count
        record.enter(Phase.READY_TO_SUBMIT if full else Phase.READY_TO_DRAFT)

    # ---- ends ----------------------------------------------------------------------------------------------------

    def _cancel_pending(self) -> None:
        for record in list(self._ring):
            if record.cancelling and record.is_live:
                record.cancelling = False
                self._cancel(record)

    def _cancel(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        phase = record.phase
        current = record.round
        if phase in SUBMITTED and current is not None and current.verification is not None:
            self._executor.wait(record.sequence, current.verification)
            self._executor.commit(record.sequence, CommitPlan(kept=0, tokens=()), current.branch)
        record.watch, text = record.watch.take_text(ended=True)
        if text:
            self._outbox.append(TokensCommitted(record.request.index, len(record.output), (), text))
        self._trace.cancel(record, phase)
        self._end(record, Phase.CANCELLED, FinishReason.CANCELLED)
        self._publish()

    def _end(self, record: RequestRecord[SequenceT, BlockT, VerificationT], phase: Phase, reason: FinishReason) -> None:
        record.round = None
        record.finish = reason
        record.statistics = record.statistics.with_times(elapsed_s=self._clock() - record.opened_s)
        record.enter(phase)
        self._ring.remove(record)
        self._outbox.append(RequestFinished(record.request.index, reason, record.statistics))
        self._ledger.end(reason)
        self._trace.close(record)
        self._executor.close(record.sequence)

    def _publish(self) -> None:
        if self._publishing:
            return
        self._publishing = True
        try:
            while self._outbox:
                event = self._outbox.popleft()
                if self._sink is not None:
                    self._sink(event)
        finally:
            self._publishing = False

    def close(self) -> None:
        """Cancel what is still alive, so that nothing keeps running."""
        for record in list(self._ring):
            record.cancelling = True
        self._cancel_pending()


def _current(record: RequestRecord[Any, BlockT, VerificationT]) -> Round[BlockT, VerificationT]:
    if record.round is None:
        raise EreduError(f"request {record.request.index} has no round in phase '{record.phase}'")
    return record.round


def _block(record: RequestRecord[Any, BlockT, Any]) -> BlockT:
    block = _current(record).block
    if block is None:
        raise EreduError(f"request {record.request.index} has no block in phase '{record.phase}'")
    return block
