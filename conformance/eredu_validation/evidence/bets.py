"""Bets of fixed shape: each names the distribution that a known kind of fault would draw from.

All of them speak about rows alone and learn nothing; `learning.py` has those that do. A bet that is placed only on some
tokens pays 1 on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Booleans, Floats
from eredu_validation.evidence.kept_bets import Arrays, below, put_below
from eredu_validation.evidence.payoff import Ratio, safe_log
from eredu_validation.evidence.transforms import View

LEAKS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)
"""Fractions of the draft leak."""
SIDES = (0.03, 0.1, 0.3, 0.9)
"""Fractions of the other one-sided bets."""


class Family(Protocol):
    """Bets of one kind. Its growth may use everything but the tokens, and what it learned from earlier tokens."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its bets."""
        ...

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """Logarithm of what each bet pays on each token, shape (n, bets)."""
        ...

    def learn(self, view: View) -> None:
        """Take note of tokens, for later ones."""
        ...

    def learned(self) -> Arrays:
        """What it learned, whatever later tokens of other requests are bet on by; empty where it learns nothing."""
        ...

    def recall(self, arrays: Arrays) -> None:
        """Go on from what was learned, as fresh as it is."""
        ...


class Unlearned:
    """Bets that learn nothing, and so have nothing to keep."""

    def learn(self, view: View) -> None:
        """Nothing is learned."""

    def learned(self) -> Arrays:
        """Nothing."""
        return {}

    def recall(self, arrays: Arrays) -> None:
        """Nothing is recalled."""


Aim = Callable[[Columns], Floats]
"""Rows r, shape (n, V)."""
Place = Callable[[Columns], Booleans]
"""Which tokens a bet is placed on, shape (n,)."""


def everywhere(columns: Columns) -> Booleans:
    """Every token."""
    return np.ones(len(columns), dtype=np.bool_)


def proposed(columns: Columns) -> Booleans:
    """Tokens that have a proposal."""
    return np.less(columns.slots, 2)


def unproposed(columns: Columns) -> Booleans:
    """Bonuses and plain tokens."""
    return np.equal(columns.slots, 2)


@dataclass(frozen=True)
class Fixed(Unlearned):
    """Bets on one aim, with several fractions.

    Attributes:
        name: Names the aim.
        aim: Its rows.
        fractions: Shares of the wealth; negative ones bet away from the aim.
        places: Where to bet, by the name that the bet gets; each place is a bet of its own.
    """

    name: str
    aim: Aim
    fractions: tuple[float, ...]
    places: tuple[tuple[str, Place], ...] = (("", everywhere),)

    @property
    def names(self) -> tuple[str, ...]:
        """The aim, its place and its fraction."""
        return tuple(f"{self.name}{place} {f:+g}" for place, _ in self.places for f in self.fractions)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        columns = view.columns
        ratio = Ratio.of(columns, self.aim(columns))
        logs = np.stack([ratio.log_growth(f, tolerance=tolerance) for f in self.fractions], axis=1)
        parts = [np.where(place(columns)[:, None], logs, 0.0) for _, place in self.places]
        return np.concatenate(parts, axis=1)


def draft(columns: Columns) -> Floats:
    """Q itself."""
    return columns.draft


def residual(columns: Columns) -> Floats:
    """(p - q)+ normalised; p where p = q."""
    return _normalised(np.maximum(columns.target - columns.draft, 0.0), columns.target)


def lagged(columns: Columns) -> Floats:
    """The row of the neighbouring position."""
    return columns.lagged


def unmasked(columns: Columns) -> Floats:
    """The row before grammar, filters and penalties."""
    return columns.unmasked


def tempered(temperature: float) -> Aim:
    """P at another temperature, relative to its own."""

    def aim(columns: Columns) -> Floats:
        with np.errstate(divide="ignore"):
            scores = np.log(columns.target) / temperature
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        row: Floats = powers / powers.sum(axis=1, keepdims=True)
        return row

    return aim


def argmax(columns: Columns) -> Floats:
    """The most probable id, for sure."""
    row = np.zeros_like(columns.target)
    np.put_along_axis(row, columns.target.argmax(axis=1)[:, None], 1.0, axis=1)
    return row


def scaled_acceptance(factor: float) -> Aim:
    """What rejection sampling emits that accepts where u q < factor * p and leaves the residual as it is."""

    def aim(columns: Columns) -> Floats:
        return _with_residual(columns, np.minimum(columns.draft, factor * columns.target))

    return aim


def unsubtracted(columns: Columns) -> Floats:
    """What is emitted if a rejected proposal is replaced by a draw from p."""
    kept = np.minimum(columns.draft, columns.target)
    return _topped_up(kept, columns.target)


def absolute(columns: Columns) -> Floats:
    """What is emitted if the residual is |p - q|."""
    kept = np.minimum(columns.draft, columns.target)
    other = _normalised(np.abs(columns.target - columns.draft), columns.target)
    return _topped_up(kept, other)


def greedy_draft(columns: Columns) -> Floats:
    """What is emitted if the proposal is the argmax of q and the ratio takes it for a sample."""
    best = columns.draft.argmax(axis=1)[:, None]
    mass = np.take_along_axis(columns.draft, best, axis=1)
    accepted = np.minimum(1.0, np.take_along_axis(columns.target, best, axis=1) / mass)
    kept = np.zeros_like(columns.target)
    np.put_along_axis(kept, best, accepted, axis=1)
    return _where_known(columns, _with_residual(columns, kept))


def without_ratio(columns: Columns) -> Floats:
    """What is emitted if a proposal is accepted with probability p instead of p / q."""
    return _where_known(columns, _with_residual(columns, columns.draft * columns.target))


def _where_known(columns: Columns, aim: Floats) -> Floats:
    known = (columns.draft != columns.target).any(axis=1, keepdims=True)
    return np.where(known, aim, columns.target)


def _with_residual(columns: Columns, kept: Floats) -> Floats:
    return _topped_up(kept, residual(columns))


def _topped_up(kept: Floats, rest: Floats) -> Floats:
    """`kept`, and what it lacks of 1 spread like `rest`."""
    whole: Floats = kept + (1 - kept.sum(axis=1, keepdims=True)) * rest
    return whole


def _normalised(mass: Floats, otherwise: Floats) -> Floats:
    total = mass.sum(axis=1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1.0), otherwise)


@dataclass(frozen=True)
class Joined:
    """Families as one: their bets side by side, so that they share a weight."""

    members: Sequence[Family]

    @property
    def names(self) -> tuple[str, ...]:
        """All names in order."""
        return tuple(name for member in self.members for name in member.names)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        return np.concatenate([member.log_growth(view, tolerance=tolerance) for member in self.members], axis=1)

    def learn(self, view: View) -> None:
        """All members learn."""
        for member in self.members:
            member.learn(view)

    def learned(self) -> Arrays:
        """Of each member, under its number."""
        parts = [put_below(member.learned(), str(number)) for number, member in enumerate(self.members)]
        return {name: array for part in parts for name, array in part.items()}

    def recall(self, arrays: Arrays) -> None:
        """Each member its own."""
        for number, member in enumerate(self.members):
            member.recall(below(arrays, str(number)))


@dataclass(frozen=True)
class Support(Unlearned):
    """Bets on tokens of probability 0, which only a tolerance makes possible at all.

    Without a tolerance one such token refutes the null by itself, and these bets pay 1.
    """

    shares: tuple[float, ...] = (0.01, 0.001)

    @property
    def names(self) -> tuple[str, ...]:
        """One name a share."""
        return tuple(f"support {share:+g}" for share in self.shares)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """A stake of share / tolerance on all impossible ids together: E_p of it is 0, its range is the stake."""
        impossible = view.columns.at_tokens(view.columns.target) <= 0
        if tolerance == 0:
            return np.zeros((len(view.columns), len(self.shares)))
        columns = [(1 + share / tolerance * impossible) / (1 + share) for share in self.shares]
        return safe_log(np.stack(columns, axis=1), possible=~impossible, tolerance=tolerance)
