"""The executor: one class for every way of decoding on MLX, composed with a drafter.

The target's side is the same whatever proposes: a block, which may be empty, is verified behind the leading token, and
a commit keeps a number of its rows. What the drafter remembers of a request is the drafter's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from eredu.contract.constraint import Constraint
from eredu.contract.drafter import Reads
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan, ExecutorTraits, Submission, VerificationOutcome, submit_in_turn
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.target_view import MlxDrafter, TargetView
from eredu.engine.sequence import MlxSequence, MlxVerification
from eredu.engine.verification import Verifier
from eredu.mlx.models import FittedModel
from eredu.mlx.placement import Placement
from eredu.mlx.taps import Recording


class MlxExecutor:
    """Decoding with a target and a drafter.

    Args:
        target: The loaded target.
        drafter: Proposes; plain decoding has the one that proposes nothing.
        placement: Streams of target and drafter.
    """

    def __init__(self, target: FittedModel, drafter: MlxDrafter, placement: Placement) -> None:
        self.target = target
        self.drafter = drafter
        self._placement = placement
        self._reads_hidden = Reads.HIDDEN in drafter.reads
        self._reads_cache = Reads.CACHE in drafter.reads
        self._verifier = Verifier(target, placement, records=self._reads_hidden)
        self.traits = ExecutorTraits(
            vocabulary_size=target.vocabulary_size,
            max_proposals=drafter.traits.max_proposals,
            target_context=target.context,
            drafter_context=drafter.traits.context,
            exact_promotion=drafter.traits.exact_promotion,
            needs_hidden=bool(drafter.reads),
        )

    def open(self, request: GenerationRequest) -> MlxSequence:
        """Empty caches of the target, and the drafter's state, for one request."""
        return MlxSequence(request, list(request.prompt), self.target.new_cache(), self.drafter.open(request))

    # rule: commit.leading-token-uncached, scheduling.prefill-in-chunks
    def prefill(self, sequence: MlxSequence, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1] to target and drafter; return how many are left."""
        wanted = len(sequence.request.prompt) - 1
        start = sequence.target.length
        fed = range(start, min(wanted, start + limit))
        if fed:
            with mx.stream(self._placement.target_stream):
                record = sequence.target.prefill(self.target.model, sequence.tokens[fed.start : fed.stop])
            mx.async_eval(*sequence.target.arrays())
            self.drafter.prefill(sequence.drafter, sequence, fed, self._view(sequence, record))
            mx.eval(*sequence.target.arrays())
        left = wanted - fed.stop
        if left == 0:
            mx.clear_cache()
        return left

    def draft(
        self, sequence: MlxSequence, count: int, promoted: MlxBlock | None, constraint: Constraint | None
    ) -> MlxBlock:
        """Draft or top up a block of the round that starts at the committed boundary."""
        constraints = [] if constraint is None else [constraint]
        block = promoted or MlxBlock(sequence.position, constraints=constraints)
        self.drafter.propose(sequence.drafter, sequence, block, count, self._view(sequence))
        return block

    def branch(self, sequence: MlxSequence, block: MlxBlock, count: int) -> MlxBlock:
        """Draft a branch behind a block."""
        branch = block.branch()
        self.drafter.branch(sequence.drafter, sequence, branch, count, self._view(sequence))
        return branch

    def submit(self, group: Sequence[Submission[MlxSequence, MlxBlock]]) -> list[MlxVerification | Exception]:
        """Start verifying the members, one after another."""
        return submit_in_turn(group, self._submit)

    def wait(self, sequence: MlxSequence, verification: MlxVerification) -> VerificationOutcome:
        """Wait for a verification: the one host synchronisation of a round."""
        # rule: placement.wait-before-read
        verification.completion.wait()
        sequence.running = [other for other in sequence.running if other is not verification.completion]
        return verification.summary.read()

    def bonus_guess(self, sequence: MlxSequence, branch: MlxBlock) -> int:  # noqa: ARG002
        """The branch's guess at the bonus."""
        return cast(int, branch.tokens[0].item())

    def commit(self, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None) -> MlxBlock | None:
        """Keep `plan.kept` of the verified rows; a promoted branch gives the start of the next block."""
        cached = len(sequence.tokens) - 1
        if plan.kept == 0:
            sequence.ahead = None
        # rule: commit.one-number, rollback.exact-length
        sequence.target.rollback(cached + plan.kept + (sequence.ahead is not None))
        sequence.tokens.extend(plan.tokens)
        recorded = None if sequence.verified is None else sequence.verified.recorded
        sequence.verified = None
        self.drafter.settle(sequence.drafter, sequence, plan, self._view(sequence, recorded))
        if plan.promoted is None:
            return None
        if branch is None:
            raise CapabilityError("a promotion was planned for a round without a branch")
        return branch.promoted(plan.promoted)

    def close(self, sequence: MlxSequence) -> None:
        """Wait for what still runs, and leave the caches at the committed boundary."""
        # rule: placement.wait-before-read
        for completion in sequence.running:
            completion.wait()
        sequence.running = []
        sequence.verified = sequence.ahead = None
        if not sequence.target.kinds_without_rollback:
            sequence.target.rollback(min(sequence.target.length, len(sequence.tokens) - 1))
        self.drafter.close(sequence.drafter, sequence)

    # ---- pieces --------------------------------------------------------------------------------------------------

    # rule: verify.leading-token-first, draft.empty-block-is-plain
    def _submit(self, member: Submission[MlxSequence, MlxBlock]) -> MlxVerification:
        """Start verifying the leading token and the block of one member.

        An empty block is followed at once by the next empty block, led by the token that is still on the device, so
        that the device need not wait for the host between two plain tokens. If the next block holds proposals after
        all, the row that ran ahead is taken back.
        """
        sequence, block = member.sequence, member.block
        verification, sequence.ahead = sequence.ahead, None
        if verification is not None and block.count:
            sequence.target.rollback(len(sequence.tokens) - 1)
            verification = None
        if verification is None:
            leading = mx.array(sequence.tokens[-1:], dtype=mx.uint32)
            verification = self._verifier.start(sequence, leading, block)
        if member.more and self._runs_ahead(sequence, block) and verification.tokens is not None:
            following = MlxBlock(sequence.position + 1)
            sequence.ahead = self._verifier.start(sequence, verification.tokens, following, ahead=True)
        sequence.verified = verification
        return verification

    def _runs_ahead(self, sequence: MlxSequence, block: MlxBlock) -> bool:
        """Whether the round behind an empty block may start before the host knows its leading token.

        A drafter that reads of the target may propose behind an empty block, from the state of just this round.
        """
        plain = block.count == 0 and not block.constraints and not self.drafter.reads
        return plain and not sequence.target.kinds_without_rollback

    def _view(self, sequence: MlxSequence, recorded: Recording | None = None) -> TargetView:
        """What the drafter reads of the target."""
        return TargetView(recorded if self._reads_hidden else None, sequence.target if self._reads_cache else None)
