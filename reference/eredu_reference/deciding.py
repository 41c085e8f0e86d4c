"""Deciding a round: which proposals are accepted, and which token the target adds behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eredu_reference.acceptance import block_weights, greedy_token
from eredu_reference.decoding import Decoding, Setting
from eredu_reference.frontier import Block
from eredu_reference.models import Output
from eredu_reference.pieces import Pieces
from eredu_reference.requests import AcceptanceRule
from eredu_reference.rows import Row


@dataclass(frozen=True)
class Decision:
    """What the acceptance rule says of a block.

    Attributes:
        accepted: Proposals taken, from the first.
        token: The bonus if all were taken, else the replacement of the first that was not.
    """

    accepted: int
    token: int


def target_rows(setting: Setting, state: Decoding, block: Block, outputs: Sequence[Output]) -> list[Row]:
    """Processed distribution of each verified row, k + 1 of shape (V,); row i sees the i proposals before it."""
    pieces, request, own = setting.pieces, state.request, state.round.judged_with
    return [
        pieces.target_row(
            request,
            pieces.usable(output.logits, setting.target.vocabulary),
            pieces.history_for_row(own.history, block.tokens, index),
            pieces.mask_for_row(request.constraint, own.grammar, block.tokens, index),
        )
        for index, output in enumerate(outputs)
    ]


def decide(pieces: Pieces, state: Decoding, block: Block, rows: Sequence[Row]) -> Decision:
    """Apply the rule in force to a block.

    Args:
        pieces: The engine's parts.
        state: The request: its rule, its source, and the output position of the block.
        block: Proposals and the distributions that they were drawn from.
        rows: The target's processed distributions, one more than proposals.
    """
    if state.rule is AcceptanceRule.GREEDY:
        accepted = pieces.greedy_length(block.tokens, rows)
        return Decision(accepted, greedy_token(_last_row(pieces, block, rows, accepted)))
    if state.rule is AcceptanceRule.COUPLED:
        return _decide_coupled(pieces, state, block, rows)
    return _decide_independent(pieces, state, block, rows)


def _decide_coupled(pieces: Pieces, state: Decoding, block: Block, rows: Sequence[Row]) -> Decision:
    start, tokens, source = len(state.output), dict[int, int](), state.round.judged_with.source

    def token_at(index: int) -> int:
        if index not in tokens:
            row = _last_row(pieces, block, rows, index)
            tokens[index] = pieces.draw_bonus(source, pieces.target_address(state.rule, start + index), row)
        return tokens[index]

    accepted = pieces.coupled_length(block.tokens, token_at)
    return Decision(accepted, token_at(accepted))


def _decide_independent(pieces: Pieces, state: Decoding, block: Block, rows: Sequence[Row]) -> Decision:
    """Rejection and block verification: coins, then a replacement from the residual, or the bonus."""
    start, rule, source = len(state.output), state.rule, state.round.judged_with.source
    weight = 1.0

    def coin(index: int) -> object:
        return pieces.read_coin(source, pieces.coin_address(rule, start, index))

    if rule is AcceptanceRule.BLOCK:
        accepted = pieces.block_length(block.tokens, rows, block.rows, coin, pieces.block_threshold)
        weight = block_weights(block.tokens, rows, block.rows)[accepted]
    else:
        accepted = pieces.rejection_length(block.tokens, rows, block.rows, coin, pieces.accepts)
    position = start + accepted
    if accepted == len(block.tokens):
        row = pieces.bonus_row(rows, block.rows)
        return Decision(accepted, pieces.draw_bonus(source, pieces.target_address(rule, position), row))
    row = pieces.residual(rows[accepted], block.rows[accepted], weight)
    return Decision(accepted, pieces.draw_replacement(source, pieces.replacement_address(rule, position), row))


def _last_row(pieces: Pieces, block: Block, rows: Sequence[Row], index: int) -> Row:
    """Row of the token at `index`; behind all proposals, the bonus row."""
    return pieces.bonus_row(rows, block.rows) if index == len(block.tokens) else rows[index]
