"""Full attention: every input keeps its row, and a rollback is a shorter list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from eredu_reference.caches.cache import CacheRow
from eredu_reference.errors import CacheError


class FullCache:
    """All rows, in order."""

    def __init__(self, rows: Iterable[CacheRow] = ()) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def content(self) -> tuple[CacheRow, ...]:
        """Every row."""
        return tuple(self.rows)

    def append(self, row: CacheRow) -> None:
        """Add a row behind the others."""
        self.rows.append(row)

    def rollback(self, length: int) -> None:
        """Drop the rows behind the first `length`."""
        if not 0 <= length <= len(self.rows):
            raise CacheError(f"rollback to {length} of a full cache that holds {len(self.rows)}")
        del self.rows[length:]

    def settle(self, length: int) -> None:
        """Nothing is held back, so there is nothing to give up."""

    def copy(self) -> Self:
        """A second list of the same (immutable) rows."""
        return type(self)(self.rows)
