"""Prediction heads inside the target's checkpoint: drafting from true hidden states, realigned at every commit.

What a stage has not read yet is fed with the first draft step that needs it, so realignment costs no forward pass of
its own. A head's frontier moves with the target's state, so a branch could not be the block that drafting after the
commit gives: there is no lookahead.
"""

from __future__ import annotations

import mlx.core as mx

from eredu.contract.drafter import DrafterTraits, History, Reads
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.head_state import HeadState
from eredu.drafters.proposal import propose
from eredu.drafters.target_view import TargetView
from eredu.families.prediction_heads import PredictionHeads
from eredu.mlx.models import FittedModel
from eredu.mlx.placement import Placement


class HeadsDrafter:
    """Proposes with the heads of the target's own checkpoint.

    Args:
        heads: The loaded heads.
        target: The loaded target, its hidden states tapped.
        placement: Streams; heads run on the target's.
    """

    reads = Reads.HIDDEN

    def __init__(self, heads: PredictionHeads, target: FittedModel, placement: Placement) -> None:
        self.traits = DrafterTraits(max_proposals=heads.traits.max_proposals)
        self._heads = heads
        self._target = target
        self._placement = placement

    def open(self, request: GenerationRequest) -> HeadState:
        """Stages that have read nothing, as many as the request's proposals can need."""
        return HeadState.of(self._heads, self._target.bucket, depth=request.options.max_proposals)

    def prefill(self, state: HeadState, history: History, fed: range, view: TargetView) -> None:
        """Warm the stages with the chunk's hidden rows."""
        with mx.stream(self._placement.target_stream):
            hidden = self._heads.hidden(view.rows)[: len(fed)]
            made = state.read_prompt(self._heads, history.tokens, hidden)
        mx.eval(hidden, *made)

    def propose(self, state: HeadState, history: History, block: MlxBlock, count: int, view: TargetView) -> None:  # noqa: ARG002
        """Draw each proposal from the stage that makes it."""
        with mx.stream(self._placement.target_stream):
            while block.wants(count):
                logits = state.draft_step(self._heads, block.count, history.tokens, block.tokens)
                propose(history, block, self._target.fit(logits))

    def branch(self, state: HeadState, history: History, branch: MlxBlock, count: int, view: TargetView) -> None:  # noqa: ARG002
        """Raises `CapabilityError`: the frontier moves with the target's."""
        raise CapabilityError("heads cannot draft a branch: their frontier moves with the target's state")

    def settle(self, state: HeadState, history: History, plan: CommitPlan, view: TargetView) -> None:  # noqa: ARG002
        """Forget the guesses, and let the hidden rows that stand wait for the stages."""
        with mx.stream(self._placement.target_stream):
            state.settle(self._heads.hidden(view.rows)[: plan.kept])

    def close(self, state: HeadState, history: History) -> None:
        """Nothing runs on the heads' own account."""
