"""What every cache can do: append, roll back exactly, settle, copy."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

Hidden = tuple[float, ...]
"""Hidden state of one token, float64. Empty where a model has none."""


class CacheRow(NamedTuple):
    """What one input leaves behind.

    Attributes:
        token: The id that was fed.
        position: The position that it was fed at.
        hidden: Hidden state that came with it, for a drafter that reads the target's; else empty.
    """

    token: int
    position: int
    hidden: Hidden = ()


class Cache(Protocol):
    """The inputs so far, as one kind of model remembers them.

    A rollback is exact: it gives the very content that the shorter history would have given. `settle` promises that
    no rollback will go below a length, so that a cache need not remember for ever what it evicted or summed up.
    """

    def __len__(self) -> int:
        """Inputs so far, the evicted ones included."""
        ...

    def content(self) -> tuple[object, ...]:
        """All that the model reads, comparable: equal contents give equal rows."""
        ...

    def append(self, row: CacheRow) -> None:
        """Take one input."""
        ...

    def rollback(self, length: int) -> None:
        """Forget every input behind the first `length`. Raises `CacheError` past the last settlement."""
        ...

    def settle(self, length: int) -> None:
        """Give up what only a rollback below `length` would need."""
        ...

    def copy(self) -> Self:
        """A cache of its own with the same content."""
        ...
