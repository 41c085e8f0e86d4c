"""How a draw falls: with fresh randomness each time, or with randomness that an address keeps.

`Fresh` gives the law of the algorithm. `Kept` gives the law of the algorithm *and* its addresses: an address holds one
uniform number, drawn when it is first read and narrowed by each later reading, so that a number read twice is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple, Protocol

from eredu_spec.gumbel import joint_argmax
from eredu_spec.randomness import Address
from eredu_spec.sites import obeys

Row = tuple[Fraction, ...]
ONE = Fraction(1)


class Known(NamedTuple):
    """What is known about the number of one address: it lies in [low, high), uniformly."""

    address: Address
    low: Fraction
    high: Fraction


Memory = tuple[Known, ...]
Tokens = tuple[int, ...]


class Draw(NamedTuple):
    """One way a draw can fall: the token, its probability, and what is then known about the randomness."""

    token: int
    weight: Fraction
    memory: Memory


class Outcome(NamedTuple):
    """One way a verification can fall.

    Attributes:
        accepted: Proposals that the acceptance rule took, from the first.
        candidates: The tokens to emit: those proposals, then the bonus or the replacement.
        matched: Whether the bonus equals the branch's guess; None where the two do not meet.
        weight: Probability, or 1 for a choice.
        memory: What is then known about the randomness.
    """

    accepted: int
    candidates: Tokens
    matched: bool | None
    weight: Fraction
    memory: Memory


class Draws(Protocol):
    """The three ways in which the machine reads randomness. Each yields (what, probability, what is then known)."""

    def token(self, memory: Memory, address: Address, row: Row) -> Iterator[tuple[int, Fraction, Memory]]:
        """A token from a row."""
        ...

    def coin(self, memory: Memory, address: Address, chance: Fraction) -> Iterator[tuple[bool, Fraction, Memory]]:
        """Whether the uniform number of the address lies below `chance`."""
        ...

    def shared(
        self, memory: Memory, address: Address, row: Row, other: Row, drawn: int
    ) -> Iterator[tuple[int, Fraction, Memory]]:
        """A token from a row, by the noise that gave `drawn` from the row `other`."""
        ...


@obeys("randomness.gumbel-max", "randomness.coin-exact")
class Fresh:
    """Every draw is new, save that a shared vector gives target and drafter one joint law."""

    def token(self, memory: Memory, address: Address, row: Row) -> Iterator[tuple[int, Fraction, Memory]]:  # noqa: ARG002
        """A token from a row."""
        for token, chance in enumerate(row):
            if chance > 0:
                yield token, chance, memory

    def coin(
        self,
        memory: Memory,
        address: Address,  # noqa: ARG002
        chance: Fraction,
    ) -> Iterator[tuple[bool, Fraction, Memory]]:
        """Whether a uniform number lies below `chance`."""
        if chance > 0:
            yield True, chance, memory
        if chance < 1:
            yield False, ONE - chance, memory

    def shared(
        self,
        memory: Memory,
        address: Address,  # noqa: ARG002
        row: Row,
        other: Row,
        drawn: int,
    ) -> Iterator[tuple[int, Fraction, Memory]]:
        """A token from a row by Gumbel-max, given that the same vector gave `drawn` from `other`."""
        for token, chance in enumerate(joint_argmax(row, other, drawn)):
            if chance > 0:
                yield token, chance / other[drawn], memory


@obeys("randomness.address-once")
class Kept:
    """An address holds one uniform number; tokens are read from it by the inverse distribution function.

    The inverse function stands for Gumbel-max: any rule that turns one number per address into a token of the right
    law shows whether an address that is read twice does harm, and this one keeps the bookkeeping to an interval.
    """

    def token(self, memory: Memory, address: Address, row: Row) -> Iterator[tuple[int, Fraction, Memory]]:
        """A token from a row."""
        edges = (Fraction(0), *accumulate(row))
        for token, chance in enumerate(row):
            if chance > 0:
                yield from self._narrowed(memory, address, token, edges[token], edges[token + 1])

    def coin(self, memory: Memory, address: Address, chance: Fraction) -> Iterator[tuple[bool, Fraction, Memory]]:
        """Whether the number of the address lies below `chance`."""
        for below, weight, known in self._narrowed(memory, address, 1, Fraction(0), chance):
            yield bool(below), weight, known
        for below, weight, known in self._narrowed(memory, address, 0, chance, ONE):
            yield bool(below), weight, known

    def shared(
        self,
        memory: Memory,
        address: Address,
        row: Row,
        other: Row,  # noqa: ARG002
        drawn: int,  # noqa: ARG002
    ) -> Iterator[tuple[int, Fraction, Memory]]:
        """A token from a row; what `drawn` told about the number is in the memory already."""
        return self.token(memory, address, row)

    def _narrowed(
        self, memory: Memory, address: Address, value: int, low: Fraction, high: Fraction
    ) -> Iterator[tuple[int, Fraction, Memory]]:
        """The case that the number lies in [low, high), if what is known leaves room for it."""
        known = next((entry for entry in memory if entry.address == address), Known(address, Fraction(0), ONE))
        low, high = max(low, known.low), min(high, known.high)
        if low < high:
            rest = tuple(entry for entry in memory if entry.address != address)
            narrowed = tuple(sorted((*rest, Known(address, low, high)), key=_order))
            yield value, (high - low) / (known.high - known.low), narrowed


def _order(known: Known) -> tuple[int, int, int]:
    return known.address.role, known.address.position, known.address.index


@obeys("randomness.address-once")
def forget(memory: Memory, position: int) -> Memory:
    """What is known without the addresses in front of an output position, which nothing reads again."""
    return tuple(entry for entry in memory if entry.address.position >= position) if memory else memory
