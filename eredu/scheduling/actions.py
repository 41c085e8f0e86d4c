"""The actions of a request: what one turn may do with it.

Each action is one step of a round and at most one edge of the life cycle. Nothing moves in the record before the
executor has succeeded, and nothing is told here: what became true goes to the outbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from eredu.contract.errors import EreduError
from eredu.contract.events import TokensCommitted
from eredu.contract.executor import BlockT, SequenceT, SpeculativeExecutor, Submission, VerificationT
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.terminal import FinishReason
from eredu.scheduling.clipping import clip_depth
from eredu.scheduling.event_queue import Outbox
from eredu.scheduling.executor_checks import check_block, check_outcome, check_promotion
from eredu.scheduling.lookahead import planned_length
from eredu.scheduling.phase import Phase
from eredu.scheduling.request_state import RequestRecord, Round
from eredu.scheduling.resolution import BranchView, Resolution, resolve_round
from eredu.scheduling.schedule_statistics import Ring, branches, in_flight
from eredu.scheduling.trace import Tracer


class RequestActions(Generic[SequenceT, BlockT, VerificationT]):
    """Carries out actions on one executor. Each returns why the output ended with it, or None.

    Args:
        executor: Carries out the decisions.
        options: The schedule.
        outbox: Takes what a commit made true.
        trace: Told of every step.
        clock: Seconds, for the diagnostic times only.
    """

    def __init__(
        self,
        executor: SpeculativeExecutor[SequenceT, BlockT, VerificationT],
        options: MtpSchedulerOptions,
        outbox: Outbox,
        trace: Tracer,
        clock: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._options = options
        self._outbox = outbox
        self._trace = trace
        self._clock = clock

    def enabled(
        self, record: RequestRecord[SequenceT, BlockT, VerificationT], ring: Ring
    ) -> Callable[[RequestRecord[SequenceT, BlockT, VerificationT]], FinishReason | None] | None:
        """The action that the request may take now, among the others of the ring; None while it has to wait."""
        match record.phase:
            case Phase.PREFILL:
                return self.prefill
            case Phase.READY_TO_DRAFT:
                return self.draft
            case Phase.READY_TO_SUBMIT:
                # rule: scheduling.in-flight-bound
                return self.submit if in_flight(ring) < self._options.max_in_flight else None
            case Phase.VERIFICATION_IN_FLIGHT:
                # rule: lookahead.bounded, lookahead.while-in-flight
                wanted = _current(record).planned > 0 and branches(ring) < self._options.max_branches
                return self.begin_branch if wanted else self.resolve
            case Phase.LOOKAHEAD_DRAFTING:
                return self.branch
            case Phase.LOOKAHEAD_READY | Phase.RESOLUTION:
                return self.resolve
            case _:
                return None

    def prefill(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        """Feed one chunk of the prompt; behind the last one, open the first round."""
        left = self._executor.prefill(record.sequence, self._options.prefill_chunk)
        self._trace.prefill(record, left)
        if left == 0:
            # rule: commit.leading-token-uncached, scheduling.prefill-in-chunks
            depth = clip_depth(
                record.request.options.max_proposals, self._executor.traits, record.committed, record.watch.remaining
            )
            record.round = Round(depth)
            record.enter(Phase.READY_TO_DRAFT)

    def draft(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        """Draft the block, or top up the promoted start of it."""
        current = _current(record)
        promoted = current.block
        started_s = self._clock()
        # rule: draft.from-frontier, promotion.top-up
        block = self._executor.draft(record.sequence, current.depth.count, promoted, record.watch.constraint)
        current.drafting_s += self._clock() - started_s
        check_block("block", block, current.depth.count)
        current.block = block
        self._trace.draft(record, block.count, 0 if promoted is None else promoted.count)
        record.enter(Phase.READY_TO_SUBMIT)

    def submit(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        """Start the verification, and plan the branch that may be drafted meanwhile."""
        current = _current(record)
        block = _block(record)
        more = record.watch.budget > block.count + 1
        # rule: verify.leading-token-first
        [entry] = self._executor.submit([Submission(record.sequence, block, more)])
        if isinstance(entry, Exception):
            raise entry
        current.verification = entry
        current.planned = self._plan(record, block)
        self._trace.submit(record, block.count + 1)
        record.enter(Phase.VERIFICATION_IN_FLIGHT)

    def _plan(self, record: RequestRecord[SequenceT, BlockT, VerificationT], block: BlockT) -> int:
        # rule: lookahead.planned-length, adaptive.disable-when-unpaid, constraints.drafting-stops-at-completion
        if not self._options.lookahead or not record.adaptive.enabled or block.at_grammar_end:
            return 0
        return planned_length(
            block.count,
            record.request.options.branch_length,
            record.request.options.max_proposals,
            self._executor.traits,
            record.committed,
            record.watch.remaining,
        )

    def begin_branch(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        """Take one of the places for lookahead branches."""
        record.enter(Phase.LOOKAHEAD_DRAFTING)

    def branch(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> None:
        """Draft the branch while the verification is in flight."""
        current = _current(record)
        started_s = self._clock()
        # rule: lookahead.drafted-whole, lookahead.clone-of-frontier
        branch = self._executor.branch(record.sequence, _block(record), current.planned)
        current.drafting_s += self._clock() - started_s
        check_block("lookahead branch", branch, current.planned)
        current.branch = branch
        self._trace.branch(record, current.planned, branch.count)
        record.enter(Phase.LOOKAHEAD_READY)

    # rule: commit.order, commit.failure-changes-nothing, placement.wait-before-read
    def resolve(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> FinishReason | None:
        """Wait, resolve on copies, commit the cache with one number, install, and queue the event."""
        if record.phase is not Phase.RESOLUTION:
            record.enter(Phase.RESOLUTION)
        current = _current(record)
        if current.verification is None:
            raise EreduError(f"request {record.request.index} has nothing in flight to resolve")
        started_s = self._clock()
        outcome = self._executor.wait(record.sequence, current.verification)
        waited_s = self._clock() - started_s
        check_outcome(_block(record), outcome)
        resolution = resolve_round(
            outcome=outcome,
            depth=current.depth,
            branch=self._view(record),
            watch=record.watch,
            adaptive=record.adaptive,
            statistics=record.statistics,
            requested=record.request.options.max_proposals,
            committed=record.committed,
            traits=self._executor.traits,
            drafting_s=current.drafting_s,
            waiting_s=waited_s,
        )
        self._trace.resolve(record, outcome, resolution)
        promoted = self._executor.commit(record.sequence, resolution.plan, current.branch)
        check_promotion(resolution.plan, promoted)
        self._trace.commit(record, resolution.plan.kept)
        return self._install(record, resolution, promoted)

    def _view(self, record: RequestRecord[SequenceT, BlockT, VerificationT]) -> BranchView | None:
        current = _current(record)
        branch = current.branch
        if branch is None:
            return None
        return BranchView(current.planned, branch.count, lambda: self._executor.bonus_guess(record.sequence, branch))

    def _install(
        self,
        record: RequestRecord[SequenceT, BlockT, VerificationT],
        resolution: Resolution,
        promoted: BlockT | None,
    ) -> FinishReason | None:
        walk, following = resolution.walk, resolution.next_depth
        watch, text = walk.watch.take_text(ended=walk.finish is not None)
        position = len(record.output)
        # rule: events.after-commit, commit.on-copies, constraints.state-from-history
        record.watch = watch
        record.adaptive = resolution.adaptive
        record.statistics = resolution.statistics
        record.output.extend(walk.emitted)
        record.round = None if following is None else Round(following, promoted)
        # rule: events.one-publication-a-commit
        self._outbox.put(TokensCommitted(record.request.index, position, walk.emitted, text))
        self._trace.publish(record, walk)
        if following is not None:
            # rule: promotion.top-up
            full = promoted is not None and promoted.count == following.count
            record.enter(Phase.READY_TO_SUBMIT if full else Phase.READY_TO_DRAFT)
        return walk.finish


def _current(record: RequestRecord[Any, BlockT, VerificationT]) -> Round[BlockT, VerificationT]:
    if record.round is None:
        raise EreduError(f"request {record.request.index} has no round in phase '{record.phase}'")
    return record.round


def _block(record: RequestRecord[Any, BlockT, Any]) -> BlockT:
    block = _current(record).block
    if block is None:
        raise EreduError(f"request {record.request.index} has no block in phase '{record.phase}'")
    return block
