"""An attention-like model that reads only the last w rows, each weighted by its place in the window."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import WindowCache
from eredu_reference.models.coded import CodedModel


@dataclass(frozen=True)
class WindowModel(CodedModel):
    """The row is that of the weighted sum over the rows that the window holds.

    Attributes:
        window: Rows that the cache keeps.
    """

    window: int = 4

    def new_cache(self) -> WindowCache:
        """A sliding window."""
        return WindowCache(self.window)

    def code(self, cache: WindowCache) -> int:
        """Weighted sum; one row too many, too few, or in another place changes it."""
        return sum((place + 1) * (row.token + 1) for place, row in enumerate(reversed(cache.content())))
