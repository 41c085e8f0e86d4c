"""An independent draft model beside the target.

Its frontier is the length of its cache: a branch appends behind the parent's rows, dropping it lowers the length, and
promoting it keeps the rows. A proposal is a function of the tokens before it and of its address alone, so a promoted
branch is the very block that drafting after the commit would give: promotion is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from eredu.contract.drafter import DrafterTraits, History, Reads
from eredu.contract.executor import CommitPlan
from eredu.contract.options import MAX_PROPOSALS
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.proposal import propose
from eredu.drafters.target_view import TargetView
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.models import FittedModel
from eredu.mlx.placement import Placement


@dataclass(slots=True)
class AssistantState:
    """What an assistant has read of one request.

    Attributes:
        cache: Its caches: of committed tokens, then of the block and the branch behind it.
        latest: The latest proposal; the drafter's stream is at rest once it is computed.
    """

    cache: SequenceCache
    latest: mx.array | None = None


class AssistantDrafter:
    """Proposes with an assistant.

    Args:
        model: The loaded assistant, already matched with the target.
        placement: Streams of target and drafter.
    """

    reads = Reads.HISTORY

    def __init__(self, model: FittedModel, placement: Placement) -> None:
        self.model = model
        # rule: lookahead.exact-promotion-only
        self.traits = DrafterTraits(max_proposals=MAX_PROPOSALS, context=model.context, exact_promotion=True)
        self._placement = placement

    def open(self, request: GenerationRequest) -> AssistantState:  # noqa: ARG002
        """Empty caches."""
        return AssistantState(self.model.new_cache())

    def prefill(self, state: AssistantState, history: History, fed: range, view: TargetView) -> None:  # noqa: ARG002
        """Feed the chunk, as far as the assistant's context reaches; a request without proposals needs none of it."""
        chunk = history.tokens[fed.start : min(fed.stop, self.model.context)]
        if chunk and history.request.options.max_proposals > 0:
            with mx.stream(self._placement.draft_stream):
                state.cache.prefill(self.model.model, chunk)
            mx.eval(*state.cache.arrays())

    # rule: draft.from-frontier, promotion.top-up, constraints.drafting-stops-at-completion
    def propose(self, state: AssistantState, history: History, block: MlxBlock, count: int, view: TargetView) -> None:  # noqa: ARG002
        """Draw each proposal behind the one before."""
        while block.wants(count):
            with mx.stream(self._placement.draft_stream):
                propose(history, block, self._feed_frontier(state, history, block))
            state.latest = block.tokens[-1]

    # rule: lookahead.drafted-whole
    def branch(self, state: AssistantState, history: History, branch: MlxBlock, count: int, view: TargetView) -> None:
        """Go on behind the parent's rows."""
        self.propose(state, history, branch, count, view)

    # rule: rollback.drafter-follows, lookahead.drop-whole
    def settle(self, state: AssistantState, history: History, plan: CommitPlan, view: TargetView) -> None:  # noqa: ARG002
        """Keep the rows of committed tokens but the last, and with a promotion those up to its last proposal."""
        boundary = len(history.tokens) - 1
        # rule: promotion.consume-one-reuse-the-rest
        kept = boundary if plan.promoted is None else boundary + plan.promoted
        state.cache.rollback(min(state.cache.length, kept))

    def close(self, state: AssistantState, history: History) -> None:
        """Wait for the latest proposal, and drop the rows of all that is not committed."""
        if state.latest is not None:
            mx.eval(state.latest)
            state.latest = None
        state.cache.rollback(min(state.cache.length, len(history.tokens) - 1))

    # rule: draft.frontier-exact
    def _feed_frontier(self, state: AssistantState, history: History, block: MlxBlock) -> mx.array:
        """Feed what the assistant has not seen before the next proposal; return its logits, shape (1, vocabulary)."""
        missing = history.tokens[state.cache.length :]
        known = [mx.array(missing, dtype=mx.uint32)] if missing else []
        unseen = block.pending[max(0, state.cache.length - len(history.tokens)) :]
        tokens = mx.concatenate([*known, *unseen]) if known or len(unseen) > 1 else unseen[0]
        return self.model.fit(state.cache.feed(self.model.model, tokens)[-1:])
