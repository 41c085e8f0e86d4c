"""The portfolio: families of bets with stated weights, which add up to 1.

A family shares its weight equally among its bets, and a bet of weight w costs ln(1/w) nats once, however many tokens
follow. `portfolio()` makes a fresh one, because some bets learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eredu_validation.evidence import bets, shared_randomness_bets
from eredu_validation.evidence.bets import LEAKS, SIDES, Family, Fixed, Joined, Support
from eredu_validation.evidence.emission import Floats
from eredu_validation.evidence.learning import (
    Histogram,
    Universal,
    Wave,
    pair_context,
    place_context,
    recent_context,
    redrafted_context,
    slot_context,
)
from eredu_validation.evidence.serial import PARTNERS, Serial
from eredu_validation.evidence.shared_randomness_bets import SHARED, Shared
from eredu_validation.evidence.transforms import Order

ANYWHERE = ("", bets.everywhere)
PROPOSED = (" on proposals", bets.proposed)
UNPROPOSED = (" on bonuses", bets.unproposed)


@dataclass(frozen=True)
class Stake:
    """A family and what it gets of the wealth.

    Attributes:
        name: Names the family.
        looks_like: What a deviation that it finds looks like, in words.
        weight: Its share.
        family: Its bets.
    """

    name: str
    looks_like: str
    weight: float
    family: Family


@dataclass(frozen=True)
class Portfolio:
    """All stakes.

    Attributes:
        stakes: The families; their weights add up to 1.
    """

    stakes: tuple[Stake, ...]

    def __post_init__(self) -> None:
        total = sum(stake.weight for stake in self.stakes)
        assert abs(total - 1) < 1e-12, f"weights add up to {total}, and an average needs 1"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of every bet."""
        return tuple(name for stake in self.stakes for name in stake.family.names)

    @cached_property
    def log_weights(self) -> Floats:
        """Logarithm of every bet's weight, shape (bets,)."""
        shares = [stake.weight / len(stake.family.names) for stake in self.stakes for _ in stake.family.names]
        return np.log(np.array(shares, dtype=np.float64))

    @cached_property
    def owners(self) -> tuple[Stake, ...]:
        """The stake of every bet."""
        return tuple(stake for stake in self.stakes for _ in stake.family.names)


def portfolio() -> Portfolio:
    """The portfolio of `eredu validate`, with nothing learned."""
    three, two = (ANYWHERE, PROPOSED, UNPROPOSED), (ANYWHERE, UNPROPOSED)
    away = tuple(-f for f in SIDES)
    return Portfolio(
        (
            Stake("leak", "the draft leaks into the output", 0.16, Fixed("draft", bets.draft, LEAKS, three)),
            Stake("anti-leak", "the draft is over-corrected", 0.08, Fixed("draft", bets.draft, away, two)),
            Stake("residual", "proposals are rejected needlessly", 0.08, Fixed("residual", bets.residual, SIDES)),
            Stake("acceptance", "the acceptance rule or its residual is misread", 0.16, _acceptance()),
            Stake("lag", "rows of a stale position are used", 0.08, Fixed("lag", bets.lagged, SIDES, two)),
            Stake("temperature", "rows of another temperature are used", 0.08, _temperature()),
            Stake("mask", "grammar, filters or penalties are skipped", 0.08, Joined((_mask(), Support()))),
            Stake("universal", "some ids come too often in some contexts", 0.12, _universal()),
            Stake("transform", "probable or drafted ids come too often", 0.08, _transform()),
            Stake("serial", "tokens depend on each other: a random number is used twice", 0.08, _serial()),
        )
    )


def _acceptance() -> Joined:
    bold = (0.3, 0.9)
    aims = [(f"acceptance x {f:g}", bets.scaled_acceptance(f)) for f in (0.8, 0.95, 1.05, 1.25)]
    aims += [("residual not subtracted", bets.unsubtracted), ("residual of |p - q|", bets.absolute)]
    aims += [("greedy draft called sampled", bets.greedy_draft), ("ratio without q", bets.without_ratio)]
    aims += [
        ("coin is the draft's number", shared_randomness_bets.coin_of_the_draft),
        ("replacement is the draft's number", shared_randomness_bets.replacement_of_the_draft),
        ("replacement is the coin", shared_randomness_bets.replacement_of_the_coin),
    ]
    return Joined([Fixed(name, aim, bold, (PROPOSED,)) for name, aim in aims])


def _temperature() -> Joined:
    warm = [Fixed(f"temperature {t:g}", bets.tempered(t), (0.3, 0.99)) for t in (0.8, 0.9, 1.1, 1.25)]
    return Joined([*warm, Fixed("argmax", bets.argmax, (0.3, 0.9), (UNPROPOSED,))])


def _mask() -> Fixed:
    return Fixed("unmasked", bets.unmasked, SIDES)


def _universal() -> Joined:
    contexts = {
        "place": slot_context,
        "last token": recent_context,
        "last token and redraft": redrafted_context,
        "last two tokens": pair_context,
        "last two tokens, position and offset": place_context,
    }
    return Joined([Universal(name, context) for name, context in contexts.items()])


def _transform() -> Joined:
    waves = [
        Wave(order, frequency, *place)
        for order in Order
        for frequency in (1, 2)
        for place in (ANYWHERE, PROPOSED, UNPROPOSED)
    ]
    return Joined([*(Histogram(order) for order in Order), *waves])


def _serial() -> Joined:
    serial = [Serial(order, partner) for partner, orders in PARTNERS.items() for order in orders]
    return Joined([*serial, *(Shared(number, sharings) for number, sharings in SHARED)])
