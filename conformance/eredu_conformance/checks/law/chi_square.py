"""Tails of the chi-square law, central and not, from the standard library alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

_TERMS_MAX = 10_000
_PRECISION = 1e-15


def survival(value: float, degrees: int) -> float:
    """P(X > value) for a chi-square variable of `degrees` degrees of freedom, at least 1."""
    return 1.0 if value <= 0 else _upper_gamma(degrees / 2, value / 2)


def noncentral_survival(value: float, degrees: int, shift: float) -> float:
    """P(X > value) with non-centrality `shift`: a Poisson mixture of central tails."""
    half, total, weight_sum, term = shift / 2, 0.0, 0.0, 0
    while weight_sum < 1 - 1e-12 and term < _TERMS_MAX:
        weight = math.exp(term * math.log(half) - half - math.lgamma(term + 1)) if half > 0 else float(term == 0)
        total += weight * survival(value, degrees + 2 * term)
        weight_sum += weight
        term += 1
    return total


@cache
def critical_value(degrees: int, alpha: float) -> float:
    """The value that is exceeded with probability `alpha`."""
    return _bisect(lambda value: survival(value, degrees) < alpha)


@cache
def resolved_shift(degrees: int, alpha: float, miss: float) -> float:
    """The non-centrality that a test of level `alpha` misses with probability `miss`."""
    edge = critical_value(degrees, alpha)
    return _bisect(lambda shift: noncentral_survival(edge, degrees, shift) > 1 - miss)


def resolved_variation(degrees: int, alpha: float, miss: float, samples: int) -> float:
    """Total variation that `samples` draws resolve: the divergence of any law at distance d is at least 4 d^2."""
    return min(1.0, math.sqrt(resolved_shift(degrees, alpha, miss) / (4 * samples)))


def _bisect(beyond: Callable[[float], bool]) -> float:
    """The least value at which a monotone condition holds, to 1e-9 of itself."""
    low, high = 0.0, 1.0
    while not beyond(high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if beyond(middle):
            high = middle
        else:
            low = middle
    return high


def _upper_gamma(shape: float, value: float) -> float:
    """Regularised upper incomplete gamma function: series below the mean, Lentz's continued fraction above."""
    scale = math.exp(shape * math.log(value) - value - math.lgamma(shape))
    if value < shape + 1:
        term = total = 1 / shape
        for step in range(1, _TERMS_MAX):
            term *= value / (shape + step)
            total += term
            if term < total * _PRECISION:
                break
        return 1 - scale * total
    tiny = 1e-300
    b = value + 1 - shape
    c, d = 1 / tiny, 1 / b
    fraction = d
    for step in range(1, _TERMS_MAX):
        a = -step * (step - shape)
        b += 2
        d = 1 / (a * d + b or tiny)
        c = b + a / c or tiny
        fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return scale * fraction
