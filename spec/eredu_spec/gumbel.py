"""The exact joint law of two Gumbel-max draws that share one vector, in fractions.

Gumbel-max over log-weights is a race of exponential clocks: with independent W_l ~ Exp(1), argmax(log p + g) is
argmin W_l / p_l. Two rows raced on the same clocks give a joint law that is a rational function of the rows
(Daliri, Musco, Suresh 2024, arXiv 2408.07978, use the same coupling).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from eredu_spec.sites import obeys

Row = tuple[Fraction, ...]


@obeys("verify.coupled-shared-vector")
@lru_cache(maxsize=1 << 14)
def joint_argmax(row: Row, other: Row, drawn: int) -> Row:
    """P(argmax over `row` is i, argmax over `other` is `drawn`) for every i; sums to `other[drawn]`."""
    return tuple(_joint(row, other, token, drawn) for token in range(len(row)))


def _joint(p: Row, q: Row, i: int, j: int) -> Fraction:
    """P(i wins the race under p, j wins it under q)."""
    if p[i] == 0 or q[j] == 0:
        return Fraction(0)
    if i == j:
        return 1 / sum((max(p[x] / p[i], q[x] / q[i]) for x in range(len(p))), Fraction(0))
    # With W_i = s and W_j = r * s, i wins under p iff r > p_j / p_i and j wins under q iff r < q_j / q_i; every
    # other clock must show more than s * max(p_x / p_i, r * q_x / q_j). Integrating s leaves 1 / (a + b * r)**2.
    low, high = p[j] / p[i], None if q[i] == 0 else q[j] / q[i]
    others = [x for x in range(len(p)) if x not in (i, j)]
    turns = {p[x] * q[j] / (p[i] * q[x]) for x in others if q[x] > 0}
    inside = sorted(turn for turn in turns if low < turn and (high is None or turn < high))
    if high is not None and high <= low:
        return Fraction(0)
    total, start = Fraction(0), low
    for stop in (*inside, high):
        a, b = _slope(p, q, i, j, others, start, stop)
        if stop is None:
            total += 1 / (b * (a + b * start))
        else:
            total += (stop - start) / ((a + b * start) * (a + b * stop))
            start = stop
    return total


def _slope(
    p: Row, q: Row, i: int, j: int, others: list[int], start: Fraction, stop: Fraction | None
) -> tuple[Fraction, Fraction]:
    """Coefficients of 1 + r + sum of max(p_x / p_i, r * q_x / q_j) as a + b * r between two turning points."""
    inside = start + 1 if stop is None else (start + stop) / 2
    a, b = Fraction(1), Fraction(1)
    for x in others:
        if p[x] * q[j] >= inside * q[x] * p[i]:
            a += p[x] / p[i]
        else:
            b += q[x] / q[j]
    return a, b
