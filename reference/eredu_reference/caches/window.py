"""Sliding window: the last w rows are read, and what a rejected suffix pushed out must come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from eredu_reference.caches.cache import CacheRow
from eredu_reference.errors import CacheError


class WindowCache:
    """The last `window` rows, and the rows evicted since the last settlement.

    Attributes:
        window: Rows that the model reads.
        rows: The rows inside the window, oldest first.
        evicted: Rows that left it since the last settlement, oldest first.
        length: Inputs so far.
    """

    def __init__(
        self, window: int, rows: Iterable[CacheRow] = (), evicted: Iterable[CacheRow] = (), length: int = 0
    ) -> None:
        self.window = window
        self.rows = list(rows)
        self.evicted = list(evicted)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def content(self) -> tuple[CacheRow, ...]:
        """The rows inside the window."""
        return tuple(self.rows)

    def append(self, row: CacheRow) -> None:
        """Add a row; past the window the oldest leaves, and is remembered until the settlement."""
        self.rows.append(row)
        self.length += 1
        if len(self.rows) > self.window:
            self.evicted.append(self.rows.pop(0))

    def rollback(self, length: int) -> None:
        """Drop the newest rows and bring back as many evicted ones as the window then has room for."""
        dropped = self.length - length
        if not 0 <= dropped <= len(self.evicted) + len(self.rows):
            raise CacheError(f"rollback to {length} of a window cache at {self.length}: settled rows do not come back")
        everything = self.evicted + self.rows
        kept = everything[: len(everything) - dropped]
        if len(kept) < min(length, self.window):
            raise CacheError(f"rollback to {length} needs rows that were given up when the cache was settled")
        self.rows = kept[-self.window :]
        self.evicted = kept[: len(kept) - len(self.rows)]
        self.length = length

    def settle(self, length: int) -> None:
        """Give up the evicted rows that lie before the window of `length` inputs."""
        oldest = self.length - len(self.rows) - len(self.evicted)
        del self.evicted[: max(0, length - self.window - oldest)]

    def copy(self) -> Self:
        """A cache of its own with the same rows, the evicted ones included."""
        return type(self)(self.window, self.rows, self.evicted, self.length)
