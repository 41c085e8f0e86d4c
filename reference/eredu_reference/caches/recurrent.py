"""Recurrent and convolution state: a fixed-size summary, and one snapshot a row until the round is settled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from eredu_reference.caches.cache import CacheRow
from eredu_reference.errors import CacheError


class RecurrentState(NamedTuple):
    """What a recurrent layer remembers of all inputs.

    Attributes:
        total: Running sum: each input adds to twice the sum before it, modulo a prime.
        recent: The last inputs, as a short convolution keeps them.
    """

    total: int
    recent: tuple[int, ...]


class RecurrentCache:
    """The state, and its snapshots since the last settlement.

    Attributes:
        modulus: Prime that bounds the running sum.
        width: Inputs that the convolution keeps.
        snapshots: States from the settled one to the present one, one for each input in between.
        length: Inputs so far.
    """

    def __init__(
        self,
        modulus: int,
        width: int = 2,
        snapshots: Iterable[RecurrentState] = (RecurrentState(0, ()),),
        length: int = 0,
    ) -> None:
        self.modulus = modulus
        self.width = width
        self.snapshots = list(snapshots)
        self.length = length

    def __len__(self) -> int:
        return self.length

    @property
    def state(self) -> RecurrentState:
        """The present state."""
        return self.snapshots[-1]

    def content(self) -> tuple[int, ...]:
        """The sum and the convolution window. The length is not read: the state alone decides."""
        return (self.state.total, *self.state.recent)

    def append(self, row: CacheRow) -> None:
        """Fold one input into the state, and keep the state before it."""
        total = (2 * self.state.total + row.token + 1) % self.modulus
        recent = (*self.state.recent, row.token)[-self.width :]
        self.snapshots.append(RecurrentState(total, recent))
        self.length += 1

    def rollback(self, length: int) -> None:
        """Go back to the snapshot of `length` inputs."""
        dropped = self.length - length
        if not 0 <= dropped < len(self.snapshots):
            raise CacheError(f"rollback to {length} of a recurrent cache at {self.length}: no snapshot of it is left")
        del self.snapshots[len(self.snapshots) - dropped :]
        self.length = length

    def settle(self, length: int) -> None:
        """Give up the snapshots before that of `length` inputs."""
        oldest = self.length - len(self.snapshots) + 1
        del self.snapshots[: max(0, length - oldest)]

    def copy(self) -> Self:
        """A cache of its own with the same snapshots."""
        return type(self)(self.modulus, self.width, self.snapshots, self.length)
