"""The target's side of every executor, and the whole of plain decoding: verification of a block that may be empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from eredu.contract.constraint import Constraint
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan, ExecutorTraits, Submission, VerificationOutcome, submit_in_turn
from eredu.contract.options import AcceptanceRule
from eredu.contract.request import GenerationRequest
from eredu.engine.addresses import coin_keys, final_keys, noise_keys
from eredu.engine.masks import mask_rows
from eredu.engine.models import TargetModel
from eredu.engine.sequence import MlxBlock, MlxSequence, MlxVerification
from eredu.mlx.acceptance import reject, verify_block
from eredu.mlx.cache import SequenceCache
from eredu.mlx.draws import draw, key_rows
from eredu.mlx.history import HistoryRows
from eredu.mlx.placement import Completion, Placement
from eredu.mlx.rows import process_rows
from eredu.mlx.summary import Summary


class TargetExecutor:
    """Plain decoding. Executors with a drafter extend it by `draft`, `branch` and their part of `commit`.

    Args:
        target: The loaded target.
        placement: Streams of target and drafter.
    """

    def __init__(self, target: TargetModel, placement: Placement) -> None:
        self._target = target
        self._placement = placement

    @property
    def traits(self) -> ExecutorTraits:
        """Limits of plain decoding: no proposals."""
        return ExecutorTraits(
            vocabulary_size=self._target.vocabulary_size,
            max_proposals=0,
            target_context=self._target.context,
            drafter_context=None,
            exact_promotion=False,
        )

    def open(self, request: GenerationRequest) -> MlxSequence:
        """Empty caches for one request."""
        return MlxSequence(request, list(request.prompt), self._target.new_cache())

    def prefill(self, sequence: MlxSequence, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1] to the target; return how many are left."""
        left = self._feed_prompt(sequence, sequence.target, limit)
        mx.eval(*sequence.target.arrays())
        if left == 0:
            mx.clear_cache()
        return left

    def draft(
        self,
        sequence: MlxSequence,  # noqa: ARG002
        count: int,
        promoted: MlxBlock | None,
        constraint: Constraint | None,
    ) -> MlxBlock:
        """The empty block of plain decoding."""
        if count != 0 or promoted is not None:
            raise CapabilityError(f"{count} proposals were asked of an executor without a drafter")
        return MlxBlock(constraints=[] if constraint is None else [constraint])

    def branch(self, sequence: MlxSequence, block: MlxBlock, count: int) -> MlxBlock:  # noqa: ARG002
        """Plain decoding has no branches."""
        raise CapabilityError("a lookahead branch was asked of an executor without a drafter")

    def submit(self, group: Sequence[Submission[MlxSequence, MlxBlock]]) -> list[MlxVerification | Exception]:
        """Start verifying the members, one after another."""
        return submit_in_turn(group, self._submit_one)

    # rule: verify.leading-token-first, draft.empty-block-is-plain
    def _submit_one(self, member: Submission[MlxSequence, MlxBlock]) -> MlxVerification:
        """Start verifying the leading token and the block.

        An empty block is followed at once by the next empty block, led by the token that is still on the device, so
        that the device need not wait for the host between two plain tokens.
        """
        sequence, block = member.sequence, member.block
        verification = sequence.ahead
        if verification is None:
            leading = mx.array(sequence.tokens[-1:], dtype=mx.uint32)
            verification = self._verify(sequence, leading, block, ahead=False)
        sequence.ahead = None
        if member.more and self._runs_ahead(sequence, block) and verification.tokens is not None:
            sequence.ahead = self._verify(sequence, verification.tokens, MlxBlock(), ahead=True)
        return verification

    def wait(self, sequence: MlxSequence, verification: MlxVerification) -> VerificationOutcome:
        """Wait for a verification: the one host synchronisation of a round."""
        # rule: placement.wait-before-read
        verification.completion.wait()
        sequence.running = [other for other in sequence.running if other is not verification.completion]
        return verification.summary.read()

    def bonus_guess(self, sequence: MlxSequence, branch: MlxBlock) -> int:  # noqa: ARG002
        """The branch's guess at the bonus."""
        return cast(int, branch.tokens[0].item())

    def commit(self, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None) -> MlxBlock | None:  # noqa: ARG002
        """Keep `plan.kept` of the verified rows in the target's cache."""
        cached = len(sequence.tokens) - 1
        if plan.kept == 0:
            sequence.ahead = None
        # rule: commit.one-number, rollback.exact-length
        sequence.target.rollback(cached + plan.kept + (sequence.ahead is not None))
        sequence.tokens.extend(plan.tokens)
        return None

    def close(self, sequence: MlxSequence) -> None:
        """Wait for what still runs, and leave the caches at the committed boundary."""
        # rule: placement.wait-before-read
        for completion in sequence.running:
            completion.wait()
        sequence.running = []
        sequence.ahead = None
        if not sequence.target.kinds_without_rollback:
            sequence.target.rollback(min(sequence.target.length, len(sequence.tokens) - 1))

    # ---- pieces --------------------------------------------------------------------------------------------------

    def _runs_ahead(self, sequence: MlxSequence, block: MlxBlock) -> bool:
        """Whether the round behind an empty block may start before the host knows its leading token."""
        return block.count == 0 and not block.constraints and not sequence.target.kinds_without_rollback

    # rule: commit.leading-token-uncached, scheduling.prefill-in-chunks
    def _feed_prompt(self, sequence: MlxSequence, cache: SequenceCache, limit: int) -> int:
        wanted = len(sequence.request.prompt) - 1
        chunk = sequence.tokens[cache.length : min(wanted, cache.length + limit)]
        if chunk:
            with mx.stream(self._placement.target_stream):
                cache.prefill(self._target.model, chunk)
        return wanted - cache.length

    def _feed(self, sequence: MlxSequence, inputs: mx.array) -> mx.array:
        """Logits of the verified inputs, shape (rows, vocabulary)."""
        return sequence.target.feed(self._target.model, inputs)

    def _verify(self, sequence: MlxSequence, leading: mx.array, block: MlxBlock, *, ahead: bool) -> MlxVerification:
        """Feed leading token and proposals, process every row, and accept on the device.

        With `ahead`, the leading token is not committed yet, so everything lies one position further on.
        """
        with mx.stream(self._placement.target_stream):
            # rule: placement.producer-before-consumer
            proposals = [self._placement.hand_over(token) for token in block.tokens]
            drafted = mx.concatenate(proposals) if proposals else None
            inputs = leading if drafted is None else mx.concatenate([leading, drafted])
            logits = self._feed(sequence, inputs)
            scores = self._target_scores(sequence, logits, inputs, block, ahead=ahead)
            summary, tokens = self._accept(sequence, scores, drafted, block, sequence.position + ahead)
        completion = Completion(summary.array, keeps=(sequence.target, block))
        sequence.running.append(completion)
        return MlxVerification(summary, tokens, completion)

    def _target_scores(
        self, sequence: MlxSequence, logits: mx.array, inputs: mx.array, block: MlxBlock, *, ahead: bool
    ) -> mx.array:
        sampling = sequence.request.options.sampling
        history = None
        if sampling.has_penalties:
            pending = inputs if ahead else inputs[1:]
            history = self._history(sequence, pending, range(int(ahead), int(ahead) + block.count + 1))
        mask = mask_rows(block.constraints) if block.constraints else None
        return process_rows(self._target.fit(logits), sampling, mask=mask, history=history)

    # rule: verify.rows-see-prefix
    def _history(self, sequence: MlxSequence, pending: mx.array, rows: range) -> HistoryRows:
        return HistoryRows(sequence.request.prompt, sequence.output, pending, rows, self._target.vocabulary_size)

    def _accept(
        self, sequence: MlxSequence, scores: mx.array, proposals: mx.array | None, block: MlxBlock, position: int
    ) -> tuple[Summary, mx.array | None]:
        """The summary, and the target's own tokens where the rule goes by them."""
        options, randomness = sequence.request.options, sequence.request.randomness
        count, rule = block.count, options.acceptance
        if options.sampling.is_greedy or rule is AcceptanceRule.COUPLED:
            tokens = self._own_tokens(sequence, scores, position)
            return Summary.of_rows(proposals, tokens, scores), tokens
        final = key_rows(final_keys(randomness, position, count))
        if proposals is None:
            tokens = draw(scores, final)
            return Summary.of_rows(None, tokens, scores), tokens
        # rule: draft.recorded-distribution
        drafted = mx.concatenate([self._placement.hand_over(row) for row in block.scores])
        accept = reject if rule is AcceptanceRule.REJECTION else verify_block
        coins = key_rows(coin_keys(randomness, rule, position, count))
        verdict = accept(proposals, drafted, scores, coin_keys=coins, final_keys=final)
        return Summary.of_verdict(proposals, verdict), None

    # rule: verify.greedy-argmax, randomness.greedy-reads-none
    def _own_tokens(self, sequence: MlxSequence, scores: mx.array, position: int) -> mx.array:
        """The target's token at each row, shape (rows,): the argmax, under the shared noise if not greedy."""
        options = sequence.request.options
        if options.sampling.is_greedy:
            return mx.argmax(scores, axis=-1)
        return draw(scores, key_rows(noise_keys(sequence.request.randomness, position, scores.shape[0])))
