"""Compressed cache: full groups of rows are pooled into one number, and only the open group keeps its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from eredu_reference.caches.cache import CacheRow
from eredu_reference.errors import CacheError


class PooledCache:
    """Pools of `group` rows each, the open group, and the raw rows since the last settlement.

    Attributes:
        group: Rows that make one pool.
        pools: One number for each full group: the sum of (place in the group + 1) * (id + 1).
        open: Rows of the group that is not full yet.
        raw: Rows of the groups pooled since the last settlement, which a rollback may have to open again.
        length: Inputs so far.
    """

    def __init__(
        self,
        group: int,
        pools: Iterable[int] = (),
        open_rows: Iterable[CacheRow] = (),
        raw: Iterable[CacheRow] = (),
        length: int = 0,
    ) -> None:
        self.group = group
        self.pools = list(pools)
        self.open = list(open_rows)
        self.raw = list(raw)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def content(self) -> tuple[object, ...]:
        """The pools and the open rows."""
        return (tuple(self.pools), tuple(self.open))

    def append(self, row: CacheRow) -> None:
        """Add a row to the open group, and pool the group when it is full."""
        self.open.append(row)
        self.length += 1
        if len(self.open) == self.group:
            self.pools.append(sum((place + 1) * (item.token + 1) for place, item in enumerate(self.open)))
            self.raw += self.open
            self.open = []

    def rollback(self, length: int) -> None:
        """Reopen as many groups as needed, then drop the rows behind `length`."""
        while self.length - length > len(self.open) and len(self.raw) >= self.group:
            self.pools.pop()
            self.open = self.raw[-self.group :] + self.open
            self.raw = self.raw[: -self.group]
        dropped = self.length - length
        if not 0 <= dropped <= len(self.open):
            raise CacheError(
                f"rollback to {length} of a pooled cache at {self.length}: a settled pool cannot be opened"
            )
        self.open = self.open[: len(self.open) - dropped]
        self.length = length

    def settle(self, length: int) -> None:
        """Give up the raw rows of the groups that end at or before `length`."""
        oldest = self.length - len(self.open) - len(self.raw)
        groups = max(0, length - oldest) // self.group
        del self.raw[: groups * self.group]

    def copy(self) -> Self:
        """A cache of its own with the same pools and rows."""
        return type(self)(self.group, self.pools, self.open, self.raw, self.length)
