"""The cache of a sliding-window layer: it keeps every row and hides those behind the window, so it rolls back by length.

A cache that overwrites the rows it has passed cannot give them back to a rejected block. And where a row's keys lie
would depend on how tokens arrived, so a block's sums would not be those of its rows, bit for bit.
"""

from __future__ import annotations

import mlx.core as mx

from eredu.mlx.caches.full import RollbackCache


class WindowCache(RollbackCache):
    """Sliding-window cache of one layer.

    Args:
        window: Rows that a row sees, itself among them.
        bucket: See `RollbackCache`.
    """

    def __init__(self, window: int, bucket: int | None = None) -> None:
        super().__init__(bucket)
        self.window = window

    def make_mask(
        self, rows: int, *, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Mask for `rows` new rows, asked for before they are appended; of this window, whatever size is asked for."""
        end = self.offset + rows
        if end <= self.window:
            return super().make_mask(rows, return_array=return_array)
        columns = mx.arange(end if self.bucket is None or rows == 1 else self._padded(end))[None]
        places = mx.arange(self.offset, end)[:, None]
        return (columns <= places) & (columns > places - self.window)
