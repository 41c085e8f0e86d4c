"""One proposal: from a drafter's logits to a token on the device, whatever made the logits."""

from __future__ import annotations

from typing import cast

import mlx.core as mx

from eredu.contract.addresses import draft_key
from eredu.contract.drafter import History
from eredu.contract.options import AcceptanceRule, GenerationOptions
from eredu.drafters.draft_block import MlxBlock
from eredu.mlx.draws import draw, key_rows
from eredu.mlx.history import HistoryRows
from eredu.mlx.masks import mask_rows
from eredu.mlx.rows import process_rows


def propose(history: History, block: MlxBlock, logits: mx.array) -> None:
    """Append one proposal to a block, drawn from the drafter's processed distribution.

    Args:
        history: What is committed.
        block: The block or branch so far.
        logits: The drafter's logits behind it, shape (1, the target's vocabulary), padding ids excluded.

    With a grammar the token comes to the host at once, for the next mask depends on it.
    """
    request = history.request
    options = request.options
    before = None
    if options.sampling.has_penalties:
        pending = block.pending
        joined = mx.concatenate(pending) if pending else None
        rows = range(len(pending), len(pending) + 1)
        before = HistoryRows(request.prompt, history.output, joined, rows, logits.shape[-1])
    mask = mask_rows(block.constraints[-1:]) if block.constraints else None
    # rule: draft.recorded-distribution, constraints.mask-on-every-row
    scores = process_rows(logits, options.sampling, mask=mask, history=before)
    if options.sampling.is_greedy:
        token = mx.argmax(scores, axis=-1)
    else:
        start, index = block.next_address
        key = draft_key(request.randomness, options.acceptance, round_position=start, index=index)
        token = draw(scores, key_rows([key]))
    mx.async_eval(token)
    append_proposal(options, block, token, scores)


def append_proposal(options: GenerationOptions, block: MlxBlock, token: mx.array, scores: mx.array) -> None:
    """Append a token that was drawn from processed scores, of shapes (1,), uint32, and (1, vocabulary)."""
    block.tokens.append(token)
    if not options.sampling.is_greedy and options.acceptance is not AcceptanceRule.COUPLED:
        # rule: draft.recorded-distribution
        block.scores.append(scores)
    if block.constraints:
        # rule: constraints.state-from-history
        block.constraints.append(block.constraints[-1].advance(cast(int, token.item())))
