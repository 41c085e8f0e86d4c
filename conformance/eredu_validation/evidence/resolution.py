"""What a number of tokens can show: the deviation that would have been reported, and the tokens that one needs.

A bet of weight w reaches 1 / alpha after about ln(1 / (alpha w)) / g tokens, where its growth g is at best the
Kullback-Leibler divergence of the true law from the target's, at least 2 d^2 for a total variation of d (Pinsker). With
power 1 - b, where the log ratio has a variance of about twice the divergence,

    n KL >= (z sqrt(2) + sqrt(2 z^2 + 4 ln(1 / alpha)))^2 / 4,  z the upper b-quantile of the normal law.

That is 32.6 nats for (1e-6, 1e-2). A tolerance d0 takes its part of the deviation first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

MISS = 0.01
"""Chance of missing a deviation that is called resolved."""


def needed_divergence(alpha: float, miss: float = MISS) -> float:
    """Nats of divergence, summed over tokens, with which a right bet reaches 1 / alpha with probability 1 - miss."""
    z = NormalDist().inv_cdf(1 - miss)
    return (z * math.sqrt(2) + math.sqrt(2 * z * z + 4 * math.log(1 / alpha))) ** 2 / 4


@dataclass(frozen=True, kw_only=True)
class Design:
    """What a validation is made for.

    Attributes:
        alpha: Chance of rejecting a right subject.
        tolerance: Total variation per token that arithmetic alone may cause.
        weight: Weight of the bet that must notice.
        burden: Deviation that the tolerance takes away, in tolerances; above 1 because payoffs are charged for their
            whole range.
        miss: Chance of a miss.
    """

    alpha: float
    tolerance: float = 0.0
    weight: float = 1.0
    burden: float = 1.0
    miss: float = MISS

    @property
    def nats(self) -> float:
        """Divergence that must add up."""
        return needed_divergence(self.alpha * self.weight, self.miss)

    def resolved(self, tokens: int) -> float:
        """Total variation per token that `tokens` would have shown; 1 where they show nothing."""
        if tokens < 1:
            return 1.0
        return min(1.0, self.burden * self.tolerance + math.sqrt(self.nats / (2 * tokens)))

    def tokens_needed(self, variation: float) -> int | None:
        """Tokens that resolve a total variation; None where the tolerance hides it from any number of them."""
        free = variation - self.burden * self.tolerance
        return math.ceil(self.nats / (2 * free * free)) if free > 0 else None
