"""What a round of the table executor decides: draws of the drafter and acceptance, from the reference's pure pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu_reference.acceptance import (
    block_length,
    block_weights,
    coupled_length,
    greedy_length,
    greedy_token,
    rejection_length,
    residual,
)
from eredu_reference.addresses import coin_address, proposal_address, replacement_address, target_address
from eredu_reference.requests import AcceptanceRule, Sampling
from eredu_reference.rows import Row
from eredu_reference.sources import RandomSource, Uniform


class Decision(NamedTuple):
    """How many proposals are taken, and the token behind them."""

    accepted: int
    token: int


def reference_sampling(options: SamplingOptions) -> Sampling:
    """The same settings, field by field."""
    return Sampling(**{item.name: getattr(options, item.name) for item in fields(Sampling)})


def reference_rule(options: GenerationOptions) -> AcceptanceRule:
    """The reference's name of the rule: greedy at temperature 0."""
    return AcceptanceRule.GREEDY if options.sampling.is_greedy else AcceptanceRule(options.acceptance.value)


def draw_proposal(source: RandomSource, options: GenerationOptions, row: Row, *, start: int, index: int) -> int:
    """Proposal `index` (from 0) of the round that starts at output position `start`."""
    rule = reference_rule(options)
    if rule is AcceptanceRule.GREEDY:
        return greedy_token(row)
    return source.categorical(proposal_address(rule, start, index), row)


def decide(
    source: RandomSource,
    options: GenerationOptions,
    *,
    start: int,
    proposals: Sequence[int],
    target_rows: Sequence[Row],
    draft_rows: Sequence[Row],
) -> Decision:
    """Accept or reject a block that starts at output position `start`, by the request's rule."""
    rule = reference_rule(options)

    def token(index: int) -> int:
        return source.categorical(target_address(rule, start + index), target_rows[index])

    def coin(index: int) -> Uniform:
        return source.uniform(coin_address(rule, start, index))

    weight = 1.0
    match rule:
        case AcceptanceRule.GREEDY:
            accepted = greedy_length(proposals, target_rows)
            return Decision(accepted, greedy_token(target_rows[accepted]))
        case AcceptanceRule.COUPLED:
            accepted = coupled_length(proposals, token)
            return Decision(accepted, token(accepted))
        case AcceptanceRule.BLOCK:
            accepted = block_length(proposals, target_rows, draft_rows, coin)
            weight = block_weights(proposals, target_rows, draft_rows)[accepted]
        case AcceptanceRule.REJECTION:
            accepted = rejection_length(proposals, target_rows, draft_rows, coin)
    if accepted == len(proposals):
        return Decision(accepted, token(accepted))
    rest = residual(target_rows[accepted], draft_rows[accepted], weight)
    return Decision(accepted, source.categorical(replacement_address(rule, start + accepted), rest))
