"""What a bet pays: a likelihood ratio, capped, centred under the target's row, and charged for the tolerance.

A bet names a distribution r that is known before the token is drawn and a fraction f of the wealth, and is paid
e = 1 + f (g(x) - E_p g) with g = min(r / p, cap). At tolerance 0 and without a cap that is the likelihood ratio of the
mixture (1 - f) p + f r. With a tolerance, any law within total variation d of p gives E e <= 1 + |f| d (max g - min g),
so e is divided by that. A negative f bets away from r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Booleans, Floats

LEAST_CAP, BOLD_CAP = 2.0, 4.0
"""Caps of g under a tolerance: the least, and the largest of a bold bet; timid bets may go to 1 / f."""
CHARGE = 0.1
"""What the tolerance may cost a bet, as a share of f squared, before its cap is lowered."""
SAFETY = 0.99
"""Share of its bound that a negative bet uses, so that no payoff is 0."""


@dataclass(frozen=True)
class Ratio:
    """r / p of n tokens, shape (n, V); infinite where p = 0 < r."""

    columns: Columns
    aim: Floats
    rows: Floats

    @classmethod
    def of(cls, columns: Columns, aim: Floats) -> Ratio:
        """The ratio of `aim`, shape (n, V), to the target's rows."""
        target = columns.target
        rows = np.where(aim > 0, np.inf, 0.0)
        np.divide(aim, target, out=rows, where=target > 0)
        return cls(columns, aim, rows)

    def log_growth(self, fraction: float, *, tolerance: float) -> Floats:
        """Logarithm of what the bet pays on each token, shape (n,)."""
        cap = cap_of(fraction, tolerance)
        target = self.columns.target
        if np.isinf(cap):
            capped, mean = self.rows, np.where(target > 0, self.aim, 0.0).sum(axis=1)
        else:
            capped = np.minimum(self.rows, cap)
            mean = (target * capped).sum(axis=1)
        payoff = 1 + fraction * (self.columns.at_tokens(capped) - mean)
        if tolerance > 0:
            payoff /= 1 + abs(fraction) * tolerance * (capped.max(axis=1) - capped.min(axis=1))
        return safe_log(payoff, possible=self.columns.at_tokens(target) > 0, tolerance=tolerance)


def cap_of(fraction: float, tolerance: float) -> float:
    """Where the ratio is cut off. A negative bet must be: it loses without bound on what r likes and p does not."""
    if fraction < 0:
        return SAFETY / -fraction
    if tolerance == 0:
        return np.inf
    return max(LEAST_CAP, min(max(BOLD_CAP, 1 / fraction), CHARGE * fraction / tolerance))


def safe_log(payoff: Floats, *, possible: Booleans, tolerance: float) -> Floats:
    """Logarithm; 0 at tokens of probability 0 under an exact null, which are counted apart and refute it alone."""
    if tolerance > 0:
        return np.log(payoff)
    return np.log(payoff, out=np.zeros_like(payoff), where=possible)
