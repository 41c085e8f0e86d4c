"""Verification of a block, which may be empty: the target's rows, and what the acceptance rule makes of them.

The forward pass stands in one place, `Verifier.start`.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from eredu.contract.addresses import coin_keys, final_keys, noise_keys
from eredu.contract.options import AcceptanceRule
from eredu.drafters.draft_block import MlxBlock
from eredu.engine.sequence import MlxSequence, MlxVerification
from eredu.mlx.acceptance import RULES
from eredu.mlx.draws import draw, key_rows
from eredu.mlx.history import HistoryRows
from eredu.mlx.masks import mask_rows
from eredu.mlx.models import FittedModel
from eredu.mlx.placement import Completion, Placement
from eredu.mlx.rows import process_rows
from eredu.mlx.summary import Summary


@dataclass(frozen=True, eq=False)
class Verifier:
    """Starts verifications on a target.

    Attributes:
        target: The loaded target.
        placement: Streams of target and drafter.
        records: Whether what the tapped modules saw is kept for the drafter.
    """

    target: FittedModel
    placement: Placement
    records: bool

    def start(
        self, sequence: MlxSequence, leading: mx.array, block: MlxBlock, *, ahead: bool = False
    ) -> MlxVerification:
        """Feed leading token and proposals, process every row, and accept on the device.

        Args:
            sequence: The request.
            leading: The leading token, shape (1,), uint32.
            block: The proposals.
            ahead: Whether the leading token is not committed yet, so that everything lies one position further on.
        """
        with mx.stream(self.placement.target_stream):
            # rule: placement.producer-before-consumer
            proposals = [self.placement.hand_over(token) for token in block.tokens]
            drafted = mx.concatenate(proposals) if proposals else None
            inputs = leading if drafted is None else mx.concatenate([leading, drafted])
            logits, record = sequence.target.feed_recorded(self.target.model, inputs)
            scores = self._process(sequence, logits, inputs, block, ahead=ahead)
            summary, tokens = self._accept(sequence, scores, drafted, block)
        completion = Completion(summary.array, keeps=(sequence.target, block))
        sequence.running.append(completion)
        return MlxVerification(summary, tokens, record if self.records else None, completion)

    # rule: verify.rows-see-prefix
    def _process(
        self, sequence: MlxSequence, logits: mx.array, inputs: mx.array, block: MlxBlock, *, ahead: bool
    ) -> mx.array:
        """Processed rows, shape (rows, vocabulary)."""
        request = sequence.request
        history = None
        if request.options.sampling.has_penalties:
            pending = inputs if ahead else inputs[1:]
            rows = range(int(ahead), int(ahead) + block.count + 1)
            history = HistoryRows(request.prompt, sequence.output, pending, rows, self.target.vocabulary_size)
        mask = mask_rows(block.constraints) if block.constraints else None
        return process_rows(self.target.fit(logits), request.options.sampling, mask=mask, history=history)

    def _accept(
        self, sequence: MlxSequence, scores: mx.array, proposals: mx.array | None, block: MlxBlock
    ) -> tuple[Summary, mx.array | None]:
        """The summary, and the target's own tokens where the rule goes by them."""
        options, randomness = sequence.request.options, sequence.request.randomness
        count, position, rule = block.count, block.position, options.acceptance
        if options.sampling.is_greedy or rule is AcceptanceRule.COUPLED:
            tokens = self._own_tokens(sequence, scores, position)
            return Summary.of_rows(proposals, tokens, scores), tokens
        final = key_rows(final_keys(randomness, position, count))
        if proposals is None:
            tokens = draw(scores, final)
            return Summary.of_rows(None, tokens, scores), tokens
        # rule: draft.recorded-distribution
        drafted = mx.concatenate([self.placement.hand_over(row) for row in block.scores])
        coins = key_rows(coin_keys(randomness, rule, position, count))
        verdict = RULES[rule](proposals, drafted, scores, coin_keys=coins, final_keys=final)
        return Summary.of_verdict(proposals, verdict), None

    # rule: verify.greedy-argmax, randomness.greedy-reads-none
    def _own_tokens(self, sequence: MlxSequence, scores: mx.array, position: int) -> mx.array:
        """The target's token at each row, shape (rows,): the argmax, under the shared noise if not greedy."""
        if sequence.request.options.sampling.is_greedy:
            return mx.argmax(scores, axis=-1)
        return draw(scores, key_rows(noise_keys(sequence.request.randomness, position, scores.shape[0])))
