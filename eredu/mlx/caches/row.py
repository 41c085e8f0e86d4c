"""A cache that attends for itself while few rows come: on CUDA, for models whose attention can be lent."""

from __future__ import annotations

import mlx.core as mx

from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.row_attention import LANES, LONGEST, MOST_ROWS, append_and_attend


class RowCache(RollbackCache):
    """Full-attention cache of one layer whose few-row calls go through `append_and_attend`.

    The model calls `make_mask`, `update_and_fetch` and, where `attends` says so, `attend` in this order. Calls of many
    rows, of very long caches and the first one go the usual way.
    """

    attends = False

    def make_mask(
        self, rows: int, *, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """No mask where the kernel will hide what comes later."""
        if self._will_attend(rows) and window_size is None:
            return None
        return super().make_mask(rows, return_array=return_array, window_size=window_size)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Take new rows, shape (1, heads, rows, head_dim); the kernel appends them when it attends."""
        rows = keys.shape[2]
        self.attends = self._will_attend(rows)
        if not self.attends:
            return super().update_and_fetch(keys, values)
        if self.offset + rows > self.keys.shape[2]:
            self._reserve(keys, values, self.offset + rows)
        self.offset += rows
        return keys, values

    def attend(self, queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
        """Attention of the rows taken last; arguments and result as in `append_and_attend`."""
        past = self.offset - keys.shape[2]
        return append_and_attend(queries, keys, values, self.keys, self.values, past, scale)

    def _will_attend(self, rows: int) -> bool:
        if self.keys is None or rows > MOST_ROWS or self.offset + rows > LONGEST:
            return False
        members: int = self.keys.shape[0]
        size: int = self.keys.shape[3]
        return members == 1 and size % LANES == 0 and size == self.values.shape[3]
