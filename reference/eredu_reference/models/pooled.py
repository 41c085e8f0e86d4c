"""A model over a compressed cache: pools of full groups, and the rows of the open one."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import PooledCache
from eredu_reference.models.coded import CodedModel


@dataclass(frozen=True)
class PooledModel(CodedModel):
    """The row is that of the pools and the open rows together.

    Attributes:
        group: Rows that make one pool.
    """

    group: int = 2

    def new_cache(self) -> PooledCache:
        """A pooled cache."""
        return PooledCache(self.group)

    def code(self, cache: PooledCache) -> int:
        """Every pool by its place, and the open rows by theirs."""
        pools = sum((place + 1) * pool for place, pool in enumerate(cache.pools))
        return pools + sum(5 * (place + 1) * (row.token + 1) for place, row in enumerate(cache.open))
