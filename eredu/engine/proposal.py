"""One proposal: from a drafter's logits to a token on the device, whatever made the logits."""

from __future__ import annotations

from typing import cast

import mlx.core as mx

from eredu.contract.options import AcceptanceRule
from eredu.engine.addresses import draft_key
from eredu.engine.masks import mask_rows
from eredu.engine.sequence import MlxBlock, MlxSequence
from eredu.mlx.draws import draw, key_rows
from eredu.mlx.history import HistoryRows
from eredu.mlx.rows import process_rows


def propose(sequence: MlxSequence, block: MlxBlock, logits: mx.array, *, round_position: int, index: int) -> None:
    """Append one proposal to the block, drawn from the drafter's processed distribution.

    Args:
        sequence: The request.
        block: Its block or branch so far.
        logits: The drafter's logits behind the block, shape (1, the target's vocabulary), padding ids excluded.
        round_position: Output position where the round that owns the proposal's address starts.
        index: Number of the proposal within that round.

    With a grammar the token comes to the host at once, for the next mask depends on it.
    """
    options = sequence.request.options
    history = None
    if options.sampling.has_penalties:
        pending = [*block.before, *block.tokens]
        joined = mx.concatenate(pending) if pending else None
        rows = range(len(pending), len(pending) + 1)
        history = HistoryRows(sequence.request.prompt, sequence.output, joined, rows, logits.shape[-1])
    mask = mask_rows(block.constraints[-1:]) if block.constraints else None
    # rule: draft.recorded-distribution, constraints.mask-on-every-row
    scores = process_rows(logits, options.sampling, mask=mask, history=history)
    if options.sampling.is_greedy:
        token = mx.argmax(scores, axis=-1)
    else:
        randomness, rule = sequence.request.randomness, options.acceptance
        key = draft_key(randomness, rule, round_position=round_position, index=index)
        token = draw(scores, key_rows([key]))
    mx.async_eval(token)
    block.tokens.append(token)
    if not options.sampling.is_greedy and options.acceptance is not AcceptanceRule.COUPLED:
        # rule: draft.recorded-distribution
        block.scores.append(scores)
    if block.constraints:
        # rule: constraints.state-from-history
        block.constraints.append(block.constraints[-1].advance(cast(int, token.item())))
