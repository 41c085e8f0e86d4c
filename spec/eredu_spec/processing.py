"""From a raw row to the processed distribution, in exact fractions.

Logits have no fractions, so this module works on weights, whose logarithms they are: a bias is a factor, a temperature
1/t the power t, a repetition penalty r the power r of a weight up to 1 (a logit that is not positive), and the order
of the steps is the order of the rule `verify.processed-order`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from eredu_spec.grammar import Grammar
from eredu_spec.sites import obeys

Row = tuple[Fraction, ...]
Tokens = tuple[int, ...]
ONE = Fraction(1)


class InvalidRowError(ValueError):
    """A row that is no distribution, or a draw that its row does not allow: an error, never a fallback."""


@obeys("verify.processed-order", "constraints.mask-on-every-row", "verify.invalid-is-error")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Processing:
    """The map from raw weights to the processed distribution at a history.

    Attributes:
        grammar: Masks the ids that may not follow the output; None masks nothing.
        bias: Factor by id.
        repetition: Power of the weights of ids seen among the last `repeat_last_n` of prompt and output, a whole
            number; 1 is off, and otherwise weights above 1 are refused, which would need a root.
        repeat_last_n: How many of the last tokens count; 0 counts all.
        frequency: Factor for each time an id was generated.
        presence: Factor of ids that were generated at all.
        top_k: Keep the weights not below the k-th largest, ties included; 0 keeps all.
        top_p: Keep the smallest head whose mass reaches it, ties included; 1 keeps all.
        min_p: Drop ids less probable than this share of the most probable one; 0 keeps all.
        power: The inverse temperature, a whole number.
    """

    grammar: Grammar | None = None
    bias: dict[int, Fraction] = field(default_factory=dict)
    repetition: int = 1
    repeat_last_n: int = 0
    frequency: Fraction = ONE
    presence: Fraction = ONE
    top_k: int = 0
    top_p: Fraction = ONE
    min_p: Fraction = Fraction(0)
    power: int = 1

    def row(self, weights: Row, prompt: Tokens, output: Tokens) -> Row:
        """The distribution of the token behind `prompt + output`. Raises `InvalidRowError` if nothing is left."""
        row = [weight if self._is_legal(output, token) else Fraction(0) for token, weight in enumerate(weights)]
        row = [self._penalised(weight, token, prompt, output) for token, weight in enumerate(row)]
        for threshold in (self._top_k, self._top_p, self._min_p):
            lowest = threshold(row)
            row = [weight if weight >= lowest else Fraction(0) for weight in row]
        return _normalised([weight**self.power for weight in row], f"behind output {output} no id is legal")

    def _is_legal(self, output: Tokens, token: int) -> bool:
        return self.grammar is None or self.grammar.is_legal(output, token)

    def _penalised(self, weight: Fraction, token: int, prompt: Tokens, output: Tokens) -> Fraction:
        """Bias, then penalties; they read the history of this very row, proposals in front of it included."""
        biased, count = weight * self.bias.get(token, ONE), Counter(output)[token]
        if self.repetition != 1 and token in (prompt + output)[-self.repeat_last_n :]:
            if biased > 1:
                raise InvalidRowError(
                    f"weight {biased} of id {token} is above 1; scale the row for repetition penalties"
                )
            biased **= self.repetition
        return biased * self.frequency**count * (self.presence if count else ONE)

    def _top_k(self, row: list[Fraction]) -> Fraction:
        return sorted(row, reverse=True)[self.top_k - 1] if 0 < self.top_k < len(row) else Fraction(0)

    def _top_p(self, row: list[Fraction]) -> Fraction:
        """The largest weight at which the mass of this and all larger ones reaches `top_p`."""
        total, mass = sum(row, Fraction(0)), Fraction(0)
        for weight in sorted(row, reverse=True):
            mass += weight
            if mass >= self.top_p * total:
                return weight
        return Fraction(0)

    def _min_p(self, row: list[Fraction]) -> Fraction:
        return self.min_p * max(row)


def _normalised(row: list[Fraction], complaint: str) -> Row:
    total = sum(row, Fraction(0))
    if total <= 0 or min(row) < 0:
        raise InvalidRowError(f"{complaint}: weights were {[str(weight) for weight in row]}")
    return tuple(weight / total for weight in row)


@obeys("verify.residual-positive-part", "verify.block-longest-length")
def excess(target: Row, draft: Row, share: Fraction = ONE) -> list[Fraction]:
    """(share * target - draft)+ by id."""
    return [max(share * p - q, Fraction(0)) for p, q in zip(target, draft, strict=True)]


@obeys("verify.residual-positive-part", "verify.invalid-is-error")
def residual(target: Row, draft: Row, share: Fraction = ONE) -> Row:
    """(share * target - draft)+ normalised. Raises `InvalidRowError` if it is empty."""
    return _normalised(excess(target, draft, share), "the residual is empty, so this rejection cannot have happened")
