"""Bets on random numbers that are read more than once: twice by one token, or once by several places.

Where one token reads a number twice, its row shows it alone: a proposal found by a small number meets a lenient coin,
and a replacement found by a number that was seen to reject is no fresh draw.

Where several places share a number, what the places so far say of it tells what the next one emits. The number is one
of some equal cells, each as likely as the others at first. Under every cell each id has a chance of being emitted, so
every emitted token makes some cells likelier (Bayes), and the bet names the mixture over the cells.

Tokens are taken to be found by the cumulative sums of their row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from eredu_validation.evidence.bets import proposed, residual, unproposed
from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Floats
from eredu_validation.evidence.kept_bets import Arrays
from eredu_validation.evidence.payoff import Ratio
from eredu_validation.evidence.transforms import View

CELLS = 16
"""Cells of the number."""
EDGES = np.arange(CELLS + 1) / CELLS
DOUBT = 0.05
"""Chance that a token tells nothing of the number, so that no cell is ever ruled out."""


class Number(StrEnum):
    """What the number decides."""

    COIN = "coin"
    """Acceptance."""
    DRAFT = "proposal"
    """Which id is proposed."""
    REPLACEMENT = "replacement"
    """Which id replaces a rejected proposal."""
    TARGET = "bonus"
    """Which id the target adds, or plain decoding emits."""


class Sharing(StrEnum):
    """Which places share a number."""

    BLOCK = "for a block"
    """All of a block."""
    OFFSET = "for an offset"
    """Those at one offset of all blocks of a request."""
    REQUEST = "for a request"
    """All of a request."""
    PAIR = "for two positions"
    """Positions 2 i and 2 i + 1."""


SHARED = (
    (Number.COIN, (Sharing.BLOCK, Sharing.OFFSET)),
    (Number.DRAFT, (Sharing.BLOCK, Sharing.OFFSET)),
    (Number.REPLACEMENT, (Sharing.REQUEST,)),
    (Number.TARGET, (Sharing.PAIR,)),
)
"""What the portfolio bets on."""


@dataclass
class Shared:
    """Bets on one kind of number, one for each set of places that may share it.

    Attributes:
        number: What it decides.
        sharings: The sets.
        fraction: Share of the wealth.
    """

    number: Number
    sharings: tuple[Sharing, ...]
    fraction: float = 0.9
    _beliefs: dict[tuple[Sharing, int, int], Floats] = field(default_factory=dict)
    _settled: tuple[Columns, Floats] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The number and who shares it."""
        return tuple(f"one {self.number} number {sharing}" for sharing in self.sharings)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        columns, growth = view.columns, np.zeros((len(view.columns), len(self.sharings)))
        if self._settled is not None and self._settled[0] is columns:
            return self._settled[1]
        self._settled = columns, growth
        place = unproposed if self.number is Number.TARGET else proposed
        numbers = np.flatnonzero(place(columns))
        if len(numbers) == 0:
            return growth
        here = columns.taken(numbers)
        chances = CHANCES[self.number](here)
        at_tokens = np.take_along_axis(chances, here.tokens[:, None, None], axis=2)[:, :, 0]
        at_tokens = (1 - DOUBT) * at_tokens + DOUBT * here.at_tokens(here.target)[:, None]
        for index, sharing in enumerate(self.sharings):
            beliefs = self._beliefs_before(here, sharing, at_tokens)
            aim = np.einsum("nb,nbv->nv", beliefs, chances)
            growth[numbers, index] = Ratio.of(here, aim).log_growth(self.fraction, tolerance=tolerance)
        return growth

    def learn(self, view: View) -> None:
        """What a token says of its number is noted when the next one is bet on."""

    def learned(self) -> Arrays:
        """Nothing: each number is of one request."""
        return {}

    def recall(self, arrays: Arrays) -> None:
        """Nothing is recalled."""

    def _beliefs_before(self, columns: Columns, sharing: Sharing, at_tokens: Floats) -> Floats:
        """The cells' chances before each token, shape (n, CELLS)."""
        beliefs = np.empty_like(at_tokens)
        for number, key in enumerate(_keys(columns, sharing)):
            before = self._beliefs.get(key)
            if before is None or (sharing is Sharing.BLOCK and columns.offsets[number] == 0):
                before = np.full(CELLS, 1 / CELLS)
            beliefs[number] = before
            after = before * at_tokens[number]
            total = after.sum()
            self._beliefs[key] = after / total if total > 0 else before
        return beliefs


def _keys(columns: Columns, sharing: Sharing) -> list[tuple[Sharing, int, int]]:
    """The number that each token reads."""
    within = {
        Sharing.BLOCK: np.zeros_like(columns.offsets),
        Sharing.OFFSET: columns.offsets,
        Sharing.REQUEST: np.zeros_like(columns.offsets),
        Sharing.PAIR: columns.positions // 2,
    }[sharing]
    return [(sharing, *pair) for pair in zip(columns.requests.tolist(), within.tolist(), strict=True)]


def _coin(columns: Columns) -> Floats:
    share = accepted_share(columns)[:, None, :]
    kept = columns.draft[:, None, :] * np.clip(share * CELLS - np.arange(CELLS)[:, None], 0.0, 1.0)
    return _topped_up(kept, residual(columns)[:, None, :])


def _draft(columns: Columns) -> Floats:
    kept = _found(columns.draft) * accepted_share(columns)[:, None, :]
    return _topped_up(kept, residual(columns)[:, None, :])


def _replacement(columns: Columns) -> Floats:
    kept = np.minimum(columns.target, columns.draft)[:, None, :]
    return _topped_up(kept, _found(residual(columns)))


def _target(columns: Columns) -> Floats:
    return _found(columns.target)


def _found(rows: Floats) -> Floats:
    """Chance of each id to be found by a number of each cell, rows of shape (n, V), result (n, CELLS, V)."""
    sums = sums_of(rows)[:, None, :]
    found: Floats = np.diff(np.clip(sums, EDGES[:-1, None], EDGES[1:, None]), axis=2) * CELLS
    return found


def _topped_up(kept: Floats, rest: Floats) -> Floats:
    whole: Floats = kept + (1 - kept.sum(axis=2, keepdims=True)) * rest
    return whole


CHANCES: dict[Number, Callable[[Columns], Floats]] = {
    Number.COIN: _coin,
    Number.DRAFT: _draft,
    Number.REPLACEMENT: _replacement,
    Number.TARGET: _target,
}
"""Chance of each id to be emitted for a number in each cell, shape (n, CELLS, V)."""


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
