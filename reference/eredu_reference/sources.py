"""Where random numbers come from: an address names a draw, and nothing is ever advanced.

The engine draws in two ways only, a coin that is compared and a token of a distribution, so that an oracle may put a
source of its own in this place: one that records, one that enumerates, one that reads from a script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eredu_reference.errors import AcceptanceError
from eredu_reference.requests import Request
from eredu_reference.rows import Row, check_distribution
from eredu_spec import randomness
from eredu_spec.randomness import Address, Role, Words

__all__ = [
    "Address",
    "FixedUniform",
    "RandomSource",
    "Role",
    "ThreefrySource",
    "Uniform",
    "draw",
    "gumbel_argmax",
    "gumbel_vector",
    "read_coin",
    "source_of",
]


class Uniform(Protocol):
    """A number u, uniform in [0, 1)."""

    @property
    def value(self) -> float:
        """The number itself, a multiple of 2**-24."""
        ...

    def below(self, numerator: float, denominator: float = 1.0) -> bool:
        """Whether u * denominator < numerator, strictly."""
        ...


class RandomSource(Protocol):
    """Numbers by address. Reading the same address again gives the same number again."""

    def uniform(self, address: Address) -> Uniform:
        """The coin at an address."""
        ...

    def categorical(self, address: Address, row: Row) -> int:
        """The token that the noise at an address picks from a distribution, shape (vocabulary,)."""
        ...


@dataclass(frozen=True)
class FixedUniform:
    """A uniform number whose value is known."""

    value: float

    def below(self, numerator: float, denominator: float = 1.0) -> bool:
        """Whether value * denominator < numerator."""
        return self.value * denominator < numerator


def gumbel_vector(words: Sequence[int]) -> Row:
    """Standard Gumbel noise in float64 from 32-bit words, clamped away from infinity."""
    uniform = np.minimum((np.array(words, dtype=np.float64) + 0.5) * 2.0**-32, 1 - 2.0**-24)
    noise: Row = -np.log(-np.log1p(-uniform))
    return noise


def gumbel_argmax(row: Row, noise: Row) -> int:
    """Gumbel-max: argmax of log row + noise, lowest id on ties; probability 0 never wins."""
    possible = row > 0
    if not possible.any():
        raise AcceptanceError(f"nothing can be drawn from the row {row.tolist()}")
    scores = np.where(possible, np.log(np.where(possible, row, 1.0)) + noise, -np.inf)
    return int(np.argmax(scores))


@dataclass(frozen=True)
class ThreefrySource:
    """Numbers of one request: a two-word root, and nothing that could move."""

    root: Words

    def uniform(self, address: Address) -> Uniform:
        """24 bits of the address's first word, exact in float32."""
        return FixedUniform(float(randomness.coin(randomness.key(self.root, address))))

    def categorical(self, address: Address, row: Row) -> int:
        """Gumbel-max with the address's noise vector."""
        check_distribution(row, name="drawn")
        words = randomness.words(randomness.key(self.root, address), len(row))
        return gumbel_argmax(row, gumbel_vector(words))


def source_of(request: Request) -> RandomSource:
    """Source of a request: by its own seed, or by the call's seed and its number in the call."""
    if request.batch_index is None:
        return ThreefrySource(randomness.root(request.seed))
    return ThreefrySource(randomness.batch_root(request.seed, request.batch_index))


def draw(source: RandomSource, address: Address, row: Row) -> int:
    """Draw a token of `row` with the noise at `address`: proposals, replacements, bonuses and plain tokens alike."""
    return source.categorical(address, row)


def read_coin(source: RandomSource, address: Address) -> Uniform:
    """Read the coin at `address`."""
    return source.uniform(address)
