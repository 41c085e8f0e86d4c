"""What a round of the table executor decides: draws of the drafter and acceptance, from the reference's pure pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu_reference.acceptance import greedy_token
from eredu_reference.addresses import proposal_address
from eredu_reference.deciding import Decision, Judge
from eredu_reference.pieces import Pieces
from eredu_reference.requests import AcceptanceRule, Sampling
from eredu_reference.rows import Row
from eredu_reference.sources import RandomSource

PIECES = Pieces()
"""The reference's parts as they stand."""


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
    return Judge(PIECES, reference_rule(options), source, start, proposals, draft_rows, target_rows).decide()
