"""The actions of a turn, carried out.

Each action is a part of a round and at most one edge of the life cycle of whom it serves. Nothing moves in a request's
state before the executor has succeeded, and nothing is told here: what became true goes to the queue of events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

from eredu.contract.errors import EreduError
from eredu.contract.events import TokensCommitted
from eredu.contract.executor import BlockT, SequenceT, SpeculativeExecutor, Submission, VerificationT
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.terminal import FinishReason
from eredu.scheduling.action import Action, Turn
from eredu.scheduling.clipping import clip_depth
from eredu.scheduling.event_queue import EventQueue
from eredu.scheduling.executor_checks import check_block, check_entries, check_outcome, check_promotion
from eredu.scheduling.lookahead import planned_length
from eredu.scheduling.phase import Phase
from eredu.scheduling.request_state import RequestState, Round
from eredu.scheduling.resolution import BranchView, Resolution, resolve_round
from eredu.scheduling.trace import Tracer


@dataclass(frozen=True, eq=False)
class RequestActions(Generic[SequenceT, BlockT, VerificationT]):
    """Carries out actions on one executor; the clock gives seconds, for the diagnostic times only."""

    _executor: SpeculativeExecutor[SequenceT, BlockT, VerificationT]
    _options: MtpSchedulerOptions
    _events: EventQueue
    _trace: Tracer
    _clock: Callable[[], float]

    def begin(self, turn: Turn[SequenceT, BlockT, VerificationT]) -> Sequence[Callable[[], FinishReason | None]]:
        """Begin a turn; return what is left to do for each member, in order.

        A group is submitted here and now, so what this raises concerns every member; what one of the returned
        functions raises concerns its own alone. Each returns why the output ended with it, or None.
        """
        if turn.action is Action.SUBMIT:
            entries = self.submit(turn.members)
            return [partial(self.take_up, state, entry) for state, entry in zip(turn.members, entries, strict=True)]
        works: dict[Action, Callable[[RequestState[SequenceT, BlockT, VerificationT]], FinishReason | None]] = {
            Action.PREFILL: self.prefill,
            Action.DRAFT: self.draft,
            Action.BEGIN_BRANCH: self.begin_branch,
            Action.BRANCH: self.branch,
            Action.RESOLVE: self.resolve,
        }
        return [partial(works[turn.action], state) for state in turn.members]

    def prefill(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Feed one chunk of the prompt; behind the last one, open the first round."""
        left = self._executor.prefill(state.sequence, self._options.prefill_chunk)
        self._trace.prefill(state, left)
        if left == 0:
            # rule: commit.leading-token-uncached, scheduling.prefill-in-chunks
            depth = clip_depth(
                state.request.options.max_proposals, self._executor.traits, state.committed, state.watch.remaining
            )
            state.round = Round(depth)
            state.enter(Phase.READY_TO_DRAFT)

    def draft(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Draft the block, or top up the promoted start of it."""
        current = state.current
        promoted = current.block
        started_s = self._clock()
        # rule: draft.from-frontier, promotion.top-up
        block = self._executor.draft(state.sequence, current.depth.count, promoted, state.watch.constraint)
        current.drafting_s += self._clock() - started_s
        check_block("block", block, current.depth.count)
        current.block = block
        self._trace.draft(state, block.count, 0 if promoted is None else promoted.count)
        state.enter(Phase.READY_TO_SUBMIT)

    # rule: verify.leading-token-first, scheduling.group-changes-nothing
    def submit(
        self, members: Sequence[RequestState[SequenceT, BlockT, VerificationT]]
    ) -> list[VerificationT | Exception]:
        """Start the verifications of a group; return each member's, or the exception that ends it."""
        group = [
            Submission(state.sequence, state.block, more=state.watch.budget > state.block.count + 1)
            for state in members
        ]
        entries = self._executor.submit(group)
        check_entries(len(group), entries)
        return entries

    # rule: scheduling.members-end-alone
    def take_up(self, state: RequestState[SequenceT, BlockT, VerificationT], entry: VerificationT | Exception) -> None:
        """Take up a member's verification, and plan the branch that may be drafted meanwhile."""
        if isinstance(entry, Exception):
            raise entry
        state.current.verification = entry
        state.current.planned = self._plan(state, state.block)
        self._trace.submit(state, state.block.count + 1)
        state.enter(Phase.VERIFICATION_IN_FLIGHT)

    def _plan(self, state: RequestState[SequenceT, BlockT, VerificationT], block: BlockT) -> int:
        # rule: lookahead.planned-length, adaptive.disable-when-unpaid, constraints.drafting-stops-at-completion
        if not self._options.lookahead or not state.adaptive.enabled or block.at_grammar_end:
            return 0
        return planned_length(
            block.count,
            state.request.options.branch_length,
            state.request.options.max_proposals,
            self._executor.traits,
            state.committed,
            state.watch.remaining,
        )

    def begin_branch(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Take one of the places for lookahead branches."""
        state.enter(Phase.LOOKAHEAD_DRAFTING)

    def branch(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Draft the branch while the verification is in flight."""
        current = state.current
        started_s = self._clock()
        # rule: lookahead.drafted-whole, lookahead.clone-of-frontier
        branch = self._executor.branch(state.sequence, state.block, current.planned)
        current.drafting_s += self._clock() - started_s
        check_block("lookahead branch", branch, current.planned)
        current.branch = branch
        self._trace.branch(state, current.planned, branch.count)
        state.enter(Phase.LOOKAHEAD_READY)

    # rule: commit.order, commit.failure-changes-nothing, placement.wait-before-read
    def resolve(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> FinishReason | None:
        """Wait, resolve on copies, commit the cache with one number, install, and queue the event."""
        if state.phase is not Phase.RESOLUTION:
            state.enter(Phase.RESOLUTION)
        current = state.current
        if current.verification is None:
            raise EreduError(f"request {state.request.index} has nothing in flight to resolve")
        started_s = self._clock()
        outcome = self._executor.wait(state.sequence, current.verification)
        waited_s = self._clock() - started_s
        check_outcome(state.block, outcome)
        resolution = resolve_round(
            outcome=outcome,
            depth=current.depth,
            branch=self._view(state),
            watch=state.watch,
            adaptive=state.adaptive,
            statistics=state.statistics,
            requested=state.request.options.max_proposals,
            committed=state.committed,
            traits=self._executor.traits,
            drafting_s=current.drafting_s,
            waiting_s=waited_s,
        )
        self._trace.resolve(state, outcome, resolution)
        promoted = self._executor.commit(state.sequence, resolution.plan, current.branch)
        check_promotion(resolution.plan, promoted)
        self._trace.commit(state, resolution.plan.kept)
        return self._install(state, resolution, promoted)

    def _view(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> BranchView | None:
        current = state.current
        branch = current.branch
        if branch is None:
            return None
        return BranchView(current.planned, branch.count, lambda: self._executor.bonus_guess(state.sequence, branch))

    def _install(
        self,
        state: RequestState[SequenceT, BlockT, VerificationT],
        resolution: Resolution,
        promoted: BlockT | None,
    ) -> FinishReason | None:
        walk, following = resolution.walk, resolution.next_depth
        watch, text = walk.watch.take_text(ended=walk.finish is not None)
        position = len(state.output)
        # rule: events.after-commit, commit.on-copies, constraints.state-from-history
        state.watch = watch
        state.adaptive = resolution.adaptive
        state.statistics = resolution.statistics
        state.output.extend(walk.emitted)
        state.round = None if following is None else Round(following, promoted)
        # rule: events.one-publication-a-commit
        self._events.put(TokensCommitted(state.request.index, position, walk.emitted, text))
        self._trace.publish(state, walk)
        if following is not None:
            # rule: promotion.top-up
            full = promoted is not None and promoted.count == following.count
            state.enter(Phase.READY_TO_SUBMIT if full else Phase.READY_TO_DRAFT)
        return walk.finish
