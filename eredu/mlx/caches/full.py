"""The cache of a full-attention layer: append-only buffers rolled back by length, capacity kept.

The layout never depends on how tokens arrived, so a rolled-back cache is the cache of the tokens that remain. A
snapshot is never taken: holding one would force the next append to copy the whole buffer.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from eredu.contract.errors import CapabilityError
from eredu.mlx.adapter import AppendCache
from eredu.mlx.fusion import visible_columns, visible_scores


class RollbackCache(AppendCache):  # type: ignore[misc]
    """Full-attention cache of one layer.

    With a `bucket`, calls of more than one row see keys and values padded to a multiple of it, with a mask: on CUDA
    every new pair of (rows, length) costs tens of milliseconds of planning, and padding leaves few of them. Calls of
    one row see the exact length and take the decode kernel.
    """

    keys: Any
    values: Any
    offset: int

    def __init__(self, bucket: int | None = None) -> None:
        super().__init__()
        self.bucket = bucket
        if bucket is not None:
            self.step = bucket

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows of shape (1, heads, rows, head_dim); return what the rows attend to.

        On a GPU a small model is bound by the host, so nothing is sliced that nobody reads.
        """
        start, rows = self.offset, keys.shape[2]
        end = start + rows
        if self.keys is None or end > self.keys.shape[2]:
            self._reserve(keys, values, end)
        self.keys[..., start:end, :] = keys
        self.values[..., start:end, :] = values
        self.offset = end
        length = end if self.bucket is None or rows == 1 else self._padded(end)
        if length == self.keys.shape[2]:
            return self.keys, self.values
        return self.keys[..., :length, :], self.values[..., :length, :]

    def _reserve(self, keys: mx.array, values: mx.array, length: int) -> None:
        """Grow the buffers by whole steps, so that a bucket always fits."""
        held = 0 if self.keys is None else self.keys.shape[2]
        missing = -(-length // self.step) * self.step - held
        room_k, room_v = (mx.zeros((*rows.shape[:2], missing, rows.shape[3]), rows.dtype) for rows in (keys, values))
        if self.keys is None:
            self.keys, self.values = room_k, room_v
        else:
            self.keys = mx.concatenate([self.keys, room_k], axis=2)
            self.values = mx.concatenate([self.values, room_v], axis=2)

    def make_mask(
        self, rows: int, *, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Mask for `rows` new rows, asked for before they are appended."""
        if self.bucket is None or rows == 1 or window_size is not None:
            mask: mx.array | str | None = super().make_mask(rows, return_array=return_array, window_size=window_size)
            return mask
        padded, first = self._padded(self.offset + rows), mx.array(self.offset)
        if self.keys is None or return_array:
            # Latent attention asks for an array and chooses by it: it would read an additive one upside down.
            return visible_columns(padded, rows, first)
        # One additive mask for all layers: a boolean one is converted again in every layer.
        return visible_scores(padded, rows, first, self.keys.dtype)

    def _padded(self, length: int) -> int:
        bucket = self.bucket or 1
        return -(-length // bucket) * bucket

    # rule: rollback.exact-length, rollback.exact-state
    def rollback(self, length: int) -> None:
        """Keep the first `length` rows."""
        if not 0 <= length <= self.offset:
            raise CapabilityError(f"a cache of {self.offset} rows cannot be rolled back to {length}")
        self.offset = length
