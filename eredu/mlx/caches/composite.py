"""Several append-only caches of one layer, as one: a latent cache and an indexer's."""

from __future__ import annotations

from eredu.mlx.adapter import CacheList


class RollbackList(CacheList):  # type: ignore[misc]
    """Several append-only caches of one layer, rolled back together."""

    # rule: rollback.exact-length, rollback.exact-state
    def rollback(self, length: int) -> None:
        """Keep the first `length` rows of each."""
        for cache in self.caches:
            cache.rollback(length)
