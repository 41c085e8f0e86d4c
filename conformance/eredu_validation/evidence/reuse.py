"""What a rule emits that reads one random number twice, where tokens are found by the cumulative sums of their row.

Each row shows it alone: a proposal found by a small number meets a lenient coin, and a replacement found by a number
that was seen to reject is no fresh draw. Numbers that several places share are for `sharing.py`.
"""

from __future__ import annotations

import numpy as np

from eredu_validation.evidence.bets import residual
from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Floats


def coin_of_the_draft(columns: Columns) -> Floats:
    """The number that found the proposal is its coin: of each id, what lies below its ratio p / q is accepted."""
    draft = columns.draft
    starts = np.cumsum(draft, axis=1) - draft
    kept = np.clip(accepted_share(columns) - starts, 0.0, draft)
    whole: Floats = kept + (1 - kept.sum(axis=1, keepdims=True)) * residual(columns)
    return whole


def replacement_of_the_draft(columns: Columns) -> Floats:
    """The number that found the rejected proposal finds its replacement."""
    rejected = columns.draft * (1 - accepted_share(columns))
    return _with_replaced(columns, sums_of(columns.draft), sums_of(rejected))


def replacement_of_the_coin(columns: Columns) -> Floats:
    """The coin that rejected, which lies above the ratio, finds the replacement."""
    ratios = accepted_share(columns)
    order = np.argsort(ratios, axis=1)
    knots, masses = np.take_along_axis(ratios, order, axis=1), np.take_along_axis(columns.draft, order, axis=1)
    # Mass rejected by coins up to u, the sum of q (u - p / q)+, which is linear between two ratios.
    below = np.cumsum(masses, axis=1) * knots - np.cumsum(masses * knots, axis=1)
    ends = np.ones((len(columns), 1))
    last = (masses * (1 - knots)).sum(axis=1, keepdims=True)
    knots = np.concatenate([0 * ends, knots, ends], axis=1)
    return _with_replaced(columns, knots, np.concatenate([0 * ends, below, last], axis=1))


def _with_replaced(columns: Columns, knots: Floats, below: Floats) -> Floats:
    """Accepted proposals, and what is replaced by numbers of which a mass of `below` lies under each knot."""
    replaced = np.diff(_interpolated(sums_of(residual(columns)), knots, below), axis=1)
    whole: Floats = np.minimum(columns.target, columns.draft) + np.maximum(replaced, 0.0)
    return whole


def _interpolated(places: Floats, knots: Floats, values: Floats) -> Floats:
    """Row by row, all of shape (n, …) and between 0 and 1: the broken line through the knots, at the places."""
    apart = 2.0 * np.arange(len(places))[:, None]
    found = np.interp((np.minimum(places, 1.0) + apart).ravel(), (knots + apart).ravel(), values.ravel())
    result: Floats = found.reshape(places.shape)
    return result


def sums_of(rows: Floats) -> Floats:
    """0 and the cumulative sums of rows of shape (n, V), shape (n, V + 1), none above 1."""
    sums: Floats = np.minimum(np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1), 1.0)
    return sums


def accepted_share(columns: Columns) -> Floats:
    """min(1, p / q), 1 where q = 0."""
    ones = np.ones_like(columns.target)
    ratio: Floats = np.minimum(1.0, np.divide(columns.target, columns.draft, out=ones, where=columns.draft > 0))
    return ratio
