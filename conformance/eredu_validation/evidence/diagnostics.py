"""Diagnostics beside the e-process: tests of the U in two orders, whole, by stratum and in neighbouring pairs.

They say where a deviation is, not whether there is one: the verdict is the e-process's alone. Each is made once, at the
end, so its level holds for a number of tokens that was fixed before; after an early stop the p-values flatter the
deviation that stopped it.

Counts are compared by G, never by Pearson's statistic: at a nominal 1e-6 with an expected count of 1, Pearson's false
alarms were measured at 1.2e-4 and those of G at 1.5e-6. No cell here expects fewer than `LEAST_EXPECTED`. Strata are
decided before their tokens are drawn; accepted and replaced tokens are no strata, for their laws are not p.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from eredu_validation.evidence.chi_square import upper_tail
from eredu_validation.evidence.tally import BINS, DIAGNOSED, SERIAL_BINS, Tally
from eredu_validation.evidence.transforms import Order

LEAST_EXPECTED = 5
"""Tokens that every cell of a G-test expects."""
MOST_CELLS = 16
"""Cells of a G-test at the most: more cells need more tokens for the same deviation."""
SLIP = 1e-12
"""Chance that tokens within the tolerance are more often amiss than is allowed for."""


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One test.

    Attributes:
        name: "distance" (Kolmogorov and Smirnov), "G" or "serial G".
        order: The order of the vocabulary.
        stratum: Its stratum, or "all tokens".
        tokens: Its tokens.
        statistic: The distance, or G.
        degrees: Degrees of freedom of G; 0 for a distance.
        p_value: Chance of a statistic as large, for a right subject at the edge of the tolerance.
    """

    name: str
    order: Order
    stratum: str
    tokens: int
    statistic: float
    degrees: int
    p_value: float


def diagnose(tally: Tally, *, tolerance: float) -> tuple[Diagnostic, ...]:
    """All tests for which there are tokens enough."""
    return tuple(_tests(tally, tolerance))


def holm(tests: tuple[Diagnostic, ...], alpha: float) -> tuple[Diagnostic, ...]:
    """Those that reject together, with a chance of at most `alpha` that any of them is wrong (Holm 1979)."""
    rejected = []
    for rank, test in enumerate(sorted(tests, key=lambda item: item.p_value)):
        if test.p_value * (len(tests) - rank) > alpha:
            break
        rejected.append(test)
    return tuple(rejected)


def _tests(tally: Tally, tolerance: float) -> Iterator[Diagnostic]:
    for order in DIAGNOSED:
        if tally.tokens:
            yield distance_test(tally.cells(order), order, tolerance=tolerance)
        for name, stratum in tally.strata.items():
            if stratum.tokens >= 2 * LEAST_EXPECTED:
                yield g_test(stratum.cells[order], order, name, tolerance=tolerance)
        if min(_row_sums(tally.pairs[order])) >= SERIAL_BINS * LEAST_EXPECTED:
            yield serial_test(tally.pairs[order], order, tolerance=tolerance)


def distance_test(cells: tuple[int, ...], order: Order, *, tolerance: float) -> Diagnostic:
    """Largest difference between the shares of U below a grid point and the point, with Massart's constant (1990).

    P(distance > s) <= 2 exp(-2 n s^2). Under a tolerance the U equal independent uniform ones but for a number of
    tokens that is no larger than a binomial one, and that share is taken off the distance first.
    """
    tokens, below, distance = sum(cells), 0, 0.0
    for edge, count in enumerate(cells, start=1):
        below += count
        distance = max(distance, abs(below / tokens - edge / len(cells)))
    free = max(0.0, distance - _amiss(tokens, tolerance))
    p_value = min(1.0, 2 * math.exp(-2 * tokens * free * free) + (SLIP if tolerance > 0 else 0.0))
    return Diagnostic(
        name="distance",
        order=order,
        stratum="all tokens",
        tokens=tokens,
        statistic=distance,
        degrees=0,
        p_value=p_value,
    )


def g_test(cells: tuple[int, ...], order: Order, stratum: str, *, tolerance: float) -> Diagnostic:
    """G of one stratum's U against equal cells, merged until each expects enough."""
    tokens, count = sum(cells), MOST_CELLS
    while count > 2 and tokens < LEAST_EXPECTED * count:
        count //= 2
    merged = [sum(cells[first : first + BINS // count]) for first in range(0, BINS, BINS // count)]
    statistic = _g(merged)
    # A row within total variation d moves cells of probability 1 / count by a divergence of at most 2 count d^2.
    shift = tokens * 2 * count * tolerance**2
    return Diagnostic(
        name="G",
        order=order,
        stratum=stratum,
        tokens=tokens,
        statistic=statistic,
        degrees=count - 1,
        p_value=upper_tail(statistic, count - 1, shift),
    )


def serial_test(pairs: tuple[int, ...], order: Order, *, tolerance: float) -> Diagnostic:
    """G of U in each cell of the U before it."""
    rows = [pairs[first : first + SERIAL_BINS] for first in range(0, len(pairs), SERIAL_BINS)]
    statistic, tokens = math.fsum(_g(row) for row in rows), sum(pairs)
    degrees = SERIAL_BINS * (SERIAL_BINS - 1)
    return Diagnostic(
        name="serial G",
        order=order,
        stratum="all tokens",
        tokens=tokens,
        statistic=statistic,
        degrees=degrees,
        p_value=upper_tail(statistic, degrees, tokens * 2 * SERIAL_BINS * tolerance**2),
    )


def _g(counts: list[int] | tuple[int, ...]) -> float:
    expected = sum(counts) / len(counts)
    return max(0.0, 2 * math.fsum(count * math.log(count / expected) for count in counts if count))


def _row_sums(pairs: tuple[int, ...]) -> list[int]:
    return [sum(pairs[first : first + SERIAL_BINS]) for first in range(0, len(pairs), SERIAL_BINS)]


def _amiss(tokens: int, tolerance: float) -> float:
    """Share of tokens that tolerated arithmetic may change, exceeded with a chance of `SLIP` (Bernstein)."""
    if tolerance == 0:
        return 0.0
    log = -math.log(SLIP)
    return tolerance + (log / 3 + math.sqrt(log * log / 9 + 2 * tokens * tolerance * log)) / tokens
