"""Prediction heads inside the target's checkpoint: drafting from true hidden states, realigned at every commit.

What a stage has not read yet is fed with the first draft step that needs it, so realignment costs no forward pass of
its own. A head's frontier moves with the target's state, so a branch could not be the block that drafting after the
commit gives: there is no lookahead.
"""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx

from eredu.contract.constraint import Constraint
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan, ExecutorTraits, Submission
from eredu.contract.request import GenerationRequest
from eredu.engine.head_state import HeadState
from eredu.engine.models import TargetModel
from eredu.engine.proposal import propose
from eredu.engine.sequence import MlxBlock, MlxSequence, MlxVerification
from eredu.engine.target_executor import TargetExecutor
from eredu.families.prediction_heads import PredictionHeads
from eredu.mlx.placement import Placement


class EmbeddedExecutor(TargetExecutor):
    """Speculative decoding with the heads of the target's own checkpoint.

    Args:
        target: The loaded target, its hidden states tapped.
        heads: The loaded heads.
        placement: Streams; heads run on the target's.
    """

    def __init__(self, target: TargetModel, heads: PredictionHeads, placement: Placement) -> None:
        super().__init__(target, placement)
        self._heads = heads

    @property
    def traits(self) -> ExecutorTraits:
        """Limits of target and heads; promotion is not exact, and a first hidden state is needed."""
        return replace(super().traits, max_proposals=self._heads.traits.max_proposals, needs_hidden=True)

    def open(self, request: GenerationRequest) -> MlxSequence:
        """Empty caches of target and heads for one request."""
        sequence = super().open(request)
        sequence.heads = HeadState.of(self._heads, self._target.bucket, depth=request.options.max_proposals)
        return sequence

    def prefill(self, sequence: MlxSequence, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1] to the target, and its hidden states to the heads."""
        fed = sequence.target.length
        chunk = sequence.tokens[fed : min(len(sequence.request.prompt) - 1, fed + limit)]
        made: list[mx.array] = []
        if chunk:
            with mx.stream(self._placement.target_stream):
                record = sequence.target.prefill(self._target.model, chunk)
                hidden = self._heads.hidden(record)[: len(chunk)]
                made = [hidden, *_state(sequence).read_prompt(self._heads, sequence.tokens, hidden)]
        left = super().prefill(sequence, 0)
        mx.eval(*made)
        return left

    def draft(
        self, sequence: MlxSequence, count: int, promoted: MlxBlock | None, constraint: Constraint | None
    ) -> MlxBlock:
        """Draft a block from the target's hidden states."""
        if promoted is not None:
            raise CapabilityError("heads cannot continue a promoted branch: their frontier moves with the target's")
        state = _state(sequence)
        block = MlxBlock(constraints=[] if constraint is None else [constraint])
        with mx.stream(self._placement.target_stream):
            while block.count < count and not block.at_grammar_end:
                logits = state.draft_step(self._heads, block.count, sequence.tokens, block.tokens)
                propose(sequence, block, self._target.fit(logits), round_position=sequence.position, index=block.count)
        return block

    def _submit_one(self, member: Submission[MlxSequence, MlxBlock]) -> MlxVerification:
        """Start verifying the block. Nothing runs ahead of it: the heads need every round's hidden states."""
        return super()._submit_one(replace(member, more=False))

    def commit(self, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None) -> MlxBlock | None:
        """Settle the target's cache and the heads' frontiers."""
        super().commit(sequence, plan, branch)
        _state(sequence).commit(plan.kept)
        return None

    def _feed(self, sequence: MlxSequence, inputs: mx.array) -> mx.array:
        logits, record = sequence.target.feed_recorded(self._target.model, inputs)
        _state(sequence).verified = self._heads.hidden(record)
        return logits


def _state(sequence: MlxSequence) -> HeadState:
    if sequence.heads is None:
        raise CapabilityError("a sequence without heads reached the executor of embedded heads")
    return sequence.heads
