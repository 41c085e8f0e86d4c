"""The G-test: counts against exact probabilities, summed over strata that are decided before the tokens are drawn.

Pearson's statistic is not used: with small expected counts its tail is too heavy by orders of magnitude, while G keeps
its level. Rare cells are pooled by their expected counts, which come from the law alone and never from the sample.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from eredu_conformance.checks.law.chi_square import critical_value, resolved_variation, survival

LEAST_EXPECTED = 5.0
"""Cells whose expected count is less are pooled."""
MISS = 0.01
"""Chance of a miss at the deviation that a test states to resolve."""

Law = Mapping[Hashable, float]
Counts = Mapping[Hashable, int]


@dataclass(frozen=True)
class Stratum:
    """Counts of one stratum.

    Attributes:
        law: Probability of each outcome.
        counts: How often each outcome was seen.
        expected: Draws that the stratum gets by the law; pooling goes by it.
    """

    law: Law
    counts: Counts
    expected: float

    @property
    def impossible(self) -> list[Hashable]:
        """Outcomes that were seen and have probability 0."""
        return [outcome for outcome, count in self.counts.items() if count and self.law.get(outcome, 0.0) <= 0]

    def cells(self) -> list[tuple[float, int]]:
        """Probability and count of each cell, rare outcomes pooled into one."""
        large, pooled_p, pooled_n = [], 0.0, 0
        for outcome, probability in sorted(self.law.items(), key=lambda item: item[1]):
            if probability <= 0:
                continue
            count = self.counts.get(outcome, 0)
            if probability * self.expected < LEAST_EXPECTED or 0 < pooled_p * self.expected < LEAST_EXPECTED:
                pooled_p, pooled_n = pooled_p + probability, pooled_n + count
            else:
                large.append((probability, count))
        return [*large, (pooled_p, pooled_n)] if pooled_p > 0 else large

    def statistic(self) -> tuple[float, int]:
        """G and its degrees of freedom."""
        cells = self.cells()
        total = sum(count for _, count in cells)
        g = 2 * sum(count * math.log(count / (total * p)) for p, count in cells if count)
        return max(0.0, g), len(cells) - 1


@dataclass(frozen=True)
class TestResult:
    """What a test says.

    Attributes:
        name: What was counted.
        statistic: G.
        degrees: Degrees of freedom.
        samples: Draws.
        alpha: Chance of a rejection of a right engine.
    """

    __test__ = False

    name: str
    statistic: float
    degrees: int
    samples: int
    alpha: float

    @property
    def p_value(self) -> float:
        """Chance of a statistic this large under the law."""
        return survival(self.statistic, self.degrees) if self.degrees else 1.0

    @property
    def rejects(self) -> bool:
        """Whether the law is rejected."""
        return self.degrees > 0 and self.statistic > critical_value(self.degrees, self.alpha)

    @property
    def resolves(self) -> float:
        """Total variation per draw that would have been seen with probability 1 - `MISS`."""
        return resolved_variation(self.degrees, self.alpha, MISS, self.samples) if self.degrees else 1.0


def likelihood_ratio_test(name: str, strata: list[Stratum], alpha: float) -> TestResult:
    """Sum G over strata; those without draws or with one cell add nothing."""
    statistic, degrees, samples = 0.0, 0, 0
    for stratum in strata:
        drawn = sum(stratum.counts.values())
        if drawn == 0:
            continue
        g, free = stratum.statistic()
        statistic, degrees, samples = statistic + g, degrees + free, samples + drawn
    return TestResult(name, statistic, degrees, samples, alpha)
