"""A random source that reads from a script: coins and tokens as an experiment wants them, by address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eredu_reference.rows import Row, check_distribution
from eredu_reference.sources import Address, FixedUniform, Uniform

LARGEST_COIN = 1.0 - 2.0**-24
"""The largest value that a coin can take."""


@dataclass(frozen=True)
class ScriptedSource:
    """Numbers by address, as written down.

    Attributes:
        coin: Value of every coin that `coins` does not name.
        coins: Coins by address.
        tokens: Draws by address; an unnamed draw takes the most probable id.
    """

    coin: float = 0.5
    coins: Mapping[Address, float] = field(default_factory=dict)
    tokens: Mapping[Address, int] = field(default_factory=dict)

    def uniform(self, address: Address) -> Uniform:
        """The scripted coin."""
        return FixedUniform(self.coins.get(address, self.coin))

    def categorical(self, address: Address, row: Row) -> int:
        """The scripted token, or the most probable one."""
        check_distribution(row, name="drawn")
        return self.tokens.get(address, int(row.argmax()))
