"""An independent draft model beside the target: drafting, lookahead branches, and its frontier.

The assistant's frontier is the length of its cache: a branch appends behind the parent's rows, dropping it lowers the
length, and promoting it keeps the rows. A proposal is a function of the tokens before it and of its address alone, so
a promoted branch is the very block that drafting after the commit would give: promotion is exact.
"""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx

from eredu.contract.constraint import Constraint
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan, ExecutorTraits
from eredu.contract.options import MAX_PROPOSALS
from eredu.contract.request import GenerationRequest
from eredu.engine.models import AssistantModel, TargetModel
from eredu.engine.proposal import propose
from eredu.engine.sequence import MlxBlock, MlxSequence
from eredu.engine.target_executor import TargetExecutor
from eredu.mlx.cache import SequenceCache
from eredu.mlx.placement import Placement


class AssistantExecutor(TargetExecutor):
    """Speculative decoding with a separate assistant.

    Args:
        target: The loaded target.
        assistant: The loaded assistant, already matched with the target.
        placement: Streams of both.
    """

    def __init__(self, target: TargetModel, assistant: AssistantModel, placement: Placement) -> None:
        super().__init__(target, placement)
        self._assistant = assistant

    @property
    def traits(self) -> ExecutorTraits:
        """Limits of both models. An independent assistant satisfies exact promotion."""
        return replace(
            super().traits,
            max_proposals=MAX_PROPOSALS,
            drafter_context=self._assistant.context,
            # rule: lookahead.exact-promotion-only
            exact_promotion=True,
        )

    def open(self, request: GenerationRequest) -> MlxSequence:
        """Empty caches of both models for one request."""
        sequence = super().open(request)
        sequence.drafter = self._assistant.new_cache()
        return sequence

    def prefill(self, sequence: MlxSequence, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1] to both models; return how many are left."""
        cache = _cache(sequence)
        wanted = min(len(sequence.request.prompt) - 1, self._assistant.context)
        chunk = sequence.tokens[cache.length : min(wanted, cache.length + limit)]
        if chunk and sequence.request.options.max_proposals > 0:
            with mx.stream(self._placement.draft_stream):
                cache.prefill(self._assistant.model, chunk)
            mx.async_eval(*cache.arrays())
        left = super().prefill(sequence, limit)
        mx.eval(*cache.arrays())
        return left

    def draft(
        self, sequence: MlxSequence, count: int, promoted: MlxBlock | None, constraint: Constraint | None
    ) -> MlxBlock:
        """Draft or top up a block of the round that starts at the committed boundary."""
        block = promoted or MlxBlock(constraints=[] if constraint is None else [constraint])
        position = sequence.position
        # rule: draft.from-frontier, promotion.top-up, constraints.drafting-stops-at-completion
        while block.count < count and not block.at_grammar_end:
            self._propose(sequence, block, round_position=position, index=block.count)
        return block

    # rule: lookahead.clone-of-frontier, lookahead.drafted-whole, randomness.by-round
    def branch(self, sequence: MlxSequence, block: MlxBlock, count: int) -> MlxBlock:
        """Draft a branch: the guess belongs to this round's addresses, what follows to the next round's."""
        branch = MlxBlock(before=list(block.tokens), constraints=block.constraints[-1:])
        position = sequence.position
        self._propose(sequence, branch, round_position=position, index=block.count)
        while branch.count < count and not branch.at_grammar_end:
            following = position + block.count + 1
            self._propose(sequence, branch, round_position=following, index=branch.count - 1)
        return branch

    def commit(self, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None) -> MlxBlock | None:
        """Settle both caches; a promoted branch gives the start of the next block."""
        super().commit(sequence, plan, branch)
        cache = _cache(sequence)
        if plan.promoted is None:
            # rule: rollback.drafter-follows, lookahead.drop-whole
            cache.rollback(min(cache.length, len(sequence.tokens) - 1))
            return None
        if branch is None:
            raise CapabilityError("a promotion was planned for a round without a branch")
        # rule: promotion.consume-one-reuse-the-rest, rollback.drafter-follows
        promoted = branch.tail(1, plan.promoted)
        cache.rollback(len(sequence.tokens) - 1 + promoted.count)
        return promoted

    def close(self, sequence: MlxSequence) -> None:
        """Wait for both models, and leave both caches at the committed boundary."""
        super().close(sequence)
        if sequence.drafting is not None:
            mx.eval(sequence.drafting)
            sequence.drafting = None
        cache = _cache(sequence)
        cache.rollback(min(cache.length, len(sequence.tokens) - 1))

    # ---- pieces --------------------------------------------------------------------------------------------------

    def _propose(self, sequence: MlxSequence, block: MlxBlock, *, round_position: int, index: int) -> None:
        """Append one proposal to the block, drawn from the assistant's processed distribution."""
        with mx.stream(self._placement.draft_stream):
            logits = self._feed_frontier(sequence, block)
            propose(sequence, block, logits, round_position=round_position, index=index)
        sequence.drafting = block.tokens[-1]

    # rule: draft.frontier-exact
    def _feed_frontier(self, sequence: MlxSequence, block: MlxBlock) -> mx.array:
        """Feed what the assistant has not seen before the next proposal; return its logits, shape (1, vocabulary)."""
        cache = _cache(sequence)
        pending = [*block.before, *block.tokens]
        missing = sequence.tokens[cache.length :]
        known = [mx.array(missing, dtype=mx.uint32)] if missing else []
        unseen = pending[max(0, cache.length - len(sequence.tokens)) :]
        tokens = mx.concatenate([*known, *unseen]) if known or len(unseen) > 1 else unseen[0]
        logits = cache.feed(self._assistant.model, tokens)[-1:]
        return self._assistant.fit(logits)


def _cache(sequence: MlxSequence) -> SequenceCache:
    if sequence.drafter is None:
        raise CapabilityError("a sequence without a drafter reached the assistant's executor")
    return sequence.drafter
