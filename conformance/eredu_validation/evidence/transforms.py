"""Randomised probability integral transforms: one uniform number a token, exact for any row.

U = F(x-) + V p(x) with V uniform from the harness's own generator (Brockwell 2007; Dunn and Smyth 1996). If every token
has its processed law given the past, the U are independent and uniform (Rosenblatt 1952). The order of the ids is
known before the draw, and it decides which deviations U shows: sorted by q / p, everything that tilts monotonically
towards or away from the draft moves the distribution of U by its whole total variation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Floats


class Order(StrEnum):
    """An order of the vocabulary, known before the token is drawn."""

    ID = "id"
    """By id."""
    RATIO = "draft/target"
    """By q / p, ids on ties; by id where no draft is known."""
    RANK = "probability"
    """By p, the most probable first, ids on ties."""


@dataclass(frozen=True)
class View:
    """Columns and what is derived from them once for all bets.

    Attributes:
        columns: The tokens.
        uniforms: U of each token under each order, shape (n,).
    """

    columns: Columns
    uniforms: dict[Order, Floats]

    @classmethod
    def of(cls, columns: Columns, generator: np.random.Generator) -> View:
        """Draw V, one number a token for all orders, and transform."""
        lift = generator.random(len(columns))
        return cls(columns, {order: transform(columns, order, lift) for order in Order})


def transform(columns: Columns, order: Order, lift: Floats) -> Floats:
    """U of each token, shape (n,).

    Args:
        columns: The tokens.
        order: The order of the vocabulary.
        lift: V, uniform on [0, 1), shape (n,).
    """
    rows = columns.target
    before = np.arange(columns.vocabulary)[None, :] < columns.tokens[:, None]
    if order is not Order.ID:
        scores = _scores(columns, order)
        at_token = columns.at_tokens(scores)[:, None]
        before = (scores < at_token) | ((scores == at_token) & before)
    below = np.where(before, rows, 0.0).sum(axis=1)
    uniforms: Floats = np.clip(below + lift * columns.at_tokens(rows), 0.0, 1.0)
    return uniforms


def _scores(columns: Columns, order: Order) -> Floats:
    if order is Order.RANK:
        return -columns.target
    possible = columns.target > 0
    scores: Floats = np.divide(columns.draft, columns.target, out=np.zeros_like(columns.target), where=possible)
    return scores
