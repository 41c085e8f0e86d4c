"""Tails of the chi-square law, central and not, from the standard library alone.

Sources: Abramowitz and Stegun 6.5.29 (series) and 6.5.31 (continued fraction, by Lentz's method), 26.4.25 (mixture).
"""

from __future__ import annotations

import math

TERMS_MAX = 100_000
PRECISION = 1e-15
TINY = 1e-300


def upper_tail(value: float, degrees: int, shift: float = 0.0) -> float:
    """P(X > value) for a chi-square variable.

    Args:
        value: Where the tail begins.
        degrees: Degrees of freedom, at least 1.
        shift: Non-centrality.
    """
    if value <= 0:
        return 1.0
    if shift == 0:
        return _upper_gamma(degrees / 2, value / 2)
    # Poisson weights around their mode, far enough to both sides for what is left out to be below 1e-16.
    half = shift / 2
    reach = 12 * math.sqrt(half) + 40
    first, last = max(0, int(half - reach)), int(half + reach)
    weights = (math.exp(term * math.log(half) - half - math.lgamma(term + 1)) for term in range(first, last))
    tails = (_upper_gamma(degrees / 2 + term, value / 2) for term in range(first, last))
    return min(1.0, math.fsum(weight * tail for weight, tail in zip(weights, tails, strict=True)))


def _upper_gamma(shape: float, value: float) -> float:
    """Regularised upper incomplete gamma function Q(shape, value)."""
    scale = math.exp(shape * math.log(value) - value - math.lgamma(shape))
    return 1 - scale * _series(shape, value) if value < shape + 1 else scale * _fraction(shape, value)


def _series(shape: float, value: float) -> float:
    term = total = 1 / shape
    for step in range(1, TERMS_MAX):
        term *= value / (shape + step)
        total += term
        if term < total * PRECISION:
            break
    return total


def _fraction(shape: float, value: float) -> float:
    denominator = value + 1 - shape
    upper, lower = 1 / TINY, 1 / denominator
    result = lower
    for step in range(1, TERMS_MAX):
        factor = -step * (step - shape)
        denominator += 2
        lower = 1 / ((factor * lower + denominator) or TINY)
        upper = (denominator + factor / upper) or TINY
        result *= upper * lower
        if abs(upper * lower - 1) < PRECISION:
            break
    return result
