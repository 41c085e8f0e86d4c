"""What evidence adds up to: counts and log wealth, by stratum. Tallies of independent runs add; nothing else is kept.

Counts are integers and add exactly. The wealth of a bet over two runs is the product of its wealths, so its logarithms
add; they are summed without rounding in between, so that no order of merging matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eredu_validation.evidence.emission import Floats
from eredu_validation.evidence.learning import cells_of
from eredu_validation.evidence.transforms import Order, View

BINS = 64
"""Cells in which U is counted."""
SERIAL_BINS = 4
"""Cells of U and of the U before, in the serial table."""
_NO_PAIRS = (0,) * SERIAL_BINS**2
DIAGNOSED = (Order.ID, Order.RATIO)
"""The two orders whose transforms are tested."""


@dataclass(frozen=True, kw_only=True)
class StratumTally:
    """One stratum.

    Attributes:
        tokens: Its tokens.
        impossible: Those of them that have probability 0.
        log_wealth: Logarithm of what each bet's wealth was multiplied by in it, in the portfolio's order.
        cells: For each order, how many U lie in each of `BINS` cells.
    """

    tokens: int
    impossible: int
    log_wealth: tuple[float, ...]
    cells: Mapping[Order, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """All strata.

    Attributes:
        strata: By name.
        pairs: For each order, how many tokens lie in each cell of U given the cell of U before, row by row,
            `SERIAL_BINS` squared numbers.
    """

    strata: Mapping[str, StratumTally] = field(default_factory=dict)
    pairs: Mapping[Order, tuple[int, ...]] = field(default_factory=lambda: dict.fromkeys(DIAGNOSED, _NO_PAIRS))

    @property
    def tokens(self) -> int:
        """All tokens."""
        return sum(stratum.tokens for stratum in self.strata.values())

    @property
    def impossible(self) -> int:
        """All tokens of probability 0."""
        return sum(stratum.impossible for stratum in self.strata.values())

    @property
    def log_wealth(self) -> Floats:
        """Logarithm of every bet's wealth, shape (bets,); of length 0 before the first token."""
        return np.array(_sums([stratum.log_wealth for stratum in self.strata.values()]))

    def cells(self, order: Order) -> tuple[int, ...]:
        """Counts of U over all strata."""
        return _counts([stratum.cells[order] for stratum in self.strata.values()], BINS)


def add_up(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    parts = list(tallies)
    names = sorted({name for part in parts for name in part.strata})
    return Tally(
        strata={name: _stratum_sum([part.strata[name] for part in parts if name in part.strata]) for name in names},
        pairs={order: _counts([part.pairs[order] for part in parts], SERIAL_BINS**2) for order in DIAGNOSED},
    )


def tally_of(view: View, log_growth: Floats, before: Mapping[Order, Floats]) -> Tally:
    """Tally of some tokens.

    Args:
        view: The tokens.
        log_growth: What each bet was paid, shape (n, bets).
        before: For each order, U of the token before in the same request, shape (n,), NaN where there is none.
    """
    columns = view.columns
    impossible = columns.at_tokens(columns.target) <= 0
    strata = {}
    for number, name in enumerate(columns.names):
        inside = columns.strata == number
        if inside.any():
            strata[name] = StratumTally(
                tokens=int(inside.sum()),
                impossible=int(impossible[inside].sum()),
                log_wealth=tuple(log_growth[inside].sum(axis=0).tolist()),
                cells={order: _histogram(view.uniforms[order][inside]) for order in DIAGNOSED},
            )
    return Tally(strata=strata, pairs={order: _pairs(view.uniforms[order], before[order]) for order in DIAGNOSED})


def uniforms_before(view: View, last: dict[int, dict[Order, float]]) -> dict[Order, Floats]:
    """U of the token before each, shape (n,) an order; `last` remembers the last one of each request."""
    found = {order: np.full(len(view.columns), np.nan) for order in DIAGNOSED}
    for number, request in enumerate(view.columns.requests.tolist()):
        earlier = last.get(request)
        for order in DIAGNOSED:
            if earlier is not None:
                found[order][number] = earlier[order]
        last[request] = {order: float(view.uniforms[order][number]) for order in DIAGNOSED}
    return found


def _histogram(uniforms: Floats) -> tuple[int, ...]:
    return tuple(np.bincount(cells_of(uniforms, BINS), minlength=BINS).tolist())


def _pairs(uniforms: Floats, before: Floats) -> tuple[int, ...]:
    known = ~np.isnan(before)
    rows, columns = cells_of(before[known], SERIAL_BINS), cells_of(uniforms[known], SERIAL_BINS)
    return tuple(np.bincount(rows * SERIAL_BINS + columns, minlength=SERIAL_BINS**2).tolist())


def _counts(parts: list[tuple[int, ...]], length: int) -> tuple[int, ...]:
    return tuple(sum(part[index] for part in parts) for index in range(length))


def _sums(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(math.fsum(values) for values in zip(*parts, strict=True))


def _stratum_sum(parts: list[StratumTally]) -> StratumTally:
    return StratumTally(
        tokens=sum(part.tokens for part in parts),
        impossible=sum(part.impossible for part in parts),
        log_wealth=_sums([part.log_wealth for part in parts]),
        cells={order: _counts([part.cells[order] for part in parts], BINS) for order in DIAGNOSED},
    )


def tally_record(tally: Tally) -> dict[str, Any]:
    """JSON-able."""
    return {
        "strata": {
            name: {
                "tokens": stratum.tokens,
                "impossible": stratum.impossible,
                "log_wealth": list(stratum.log_wealth),
                "cells": {order.value: list(cells) for order, cells in stratum.cells.items()},
            }
            for name, stratum in tally.strata.items()
        },
        "pairs": {order.value: list(pairs) for order, pairs in tally.pairs.items()},
    }


def tally_of_record(record: Mapping[str, Any]) -> Tally:
    """From JSON."""
    return Tally(
        strata={
            name: StratumTally(
                tokens=stratum["tokens"],
                impossible=stratum["impossible"],
                log_wealth=tuple(stratum["log_wealth"]),
                cells={Order(order): tuple(cells) for order, cells in stratum["cells"].items()},
            )
            for name, stratum in record["strata"].items()
        },
        pairs={Order(order): tuple(pairs) for order, pairs in record["pairs"].items()},
    )
