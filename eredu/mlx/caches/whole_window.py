"""The cache of a head's sliding-window layer: every row is kept, and those behind the window are hidden.

A probe runs a head at every position of a text at once, so it needs all rows. The price is the memory of full
attention, of one layer a head.
"""

from __future__ import annotations

import mlx.core as mx

from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.fusion import visible_columns


class WholeWindowCache(RollbackCache):
    """Sliding-window cache of one layer.

    Args:
        window: Rows that a row sees, itself among them.
        bucket: See `RollbackCache`.
    """

    def __init__(self, window: int, bucket: int | None = None) -> None:
        super().__init__(bucket)
        self.window = window

    def make_mask(
        self,
        rows: int,
        *,
        return_array: bool = False,
        window_size: int | None = None,  # noqa: ARG002 (it is this window's)
    ) -> mx.array | str | None:
        """Mask for `rows` new rows, asked for before they are appended."""
        end = self.offset + rows
        if end <= self.window:
            return super().make_mask(rows, return_array=return_array)
        columns = end if self.bucket is None or rows == 1 else self._padded(end)
        return visible_columns(columns, rows, mx.array(self.offset), self.window)
