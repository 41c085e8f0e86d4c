"""Echo models: the next row is a function of the position, or of the cache's length, so an off-by-one is a wrong id."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import FullCache, WindowCache
from eredu_reference.models.coded import CodedModel


@dataclass(frozen=True)
class PositionEcho(CodedModel):
    """The row is that of the position at which the last input was fed.

    Attributes:
        window: Rows that the cache keeps, so that physical slots and positions part.
    """

    window: int = 4

    def new_cache(self) -> WindowCache:
        """A sliding window."""
        return WindowCache(self.window)

    def code(self, cache: WindowCache) -> int:
        """Position of the newest row."""
        return cache.content()[-1].position + 1


@dataclass(frozen=True)
class CacheLengthEcho(CodedModel):
    """The row is that of the number of rows in the cache."""

    def new_cache(self) -> FullCache:
        """A full-attention cache."""
        return FullCache()

    def code(self, cache: FullCache) -> int:
        """Number of rows."""
        return len(cache.content())
