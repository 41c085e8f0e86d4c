"""The cache of a sliding-window layer: the rows that the window reaches, in order, and some more to go back to.

A ring forgets the row that a rejected token overwrites. Here rows are only ever appended; those far behind the window
are dropped now and then, many at a time, so that the latest rows can be taken back and nothing is copied each round.

Keys lie in the order of their positions, however they came, and a block hides from each row what lies in front of its
window. On the stock CPU wheel a block's rows are then those of decoding, bit for bit.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from eredu.contract.errors import CapabilityError
from eredu.mlx.fusion import visible_columns, visible_scores

KEPT_BEHIND = 256
"""Latest rows that can always be taken back."""


class WindowCache:
    """Sliding-window cache of one layer; mlx-lm's decoders use it as they use their own.

    Args:
        window: Keys that a row sees, its own too.
        bucket: See `RollbackCache`.

    Attributes:
        offset: Tokens fed and not rolled back.
    """

    def __init__(self, window: int, bucket: int | None = None) -> None:
        self.window = window
        self.bucket = bucket
        self.offset = 0
        self._keys: Any = None
        self._values: Any = None
        self._first = 0
        """Position of the first row that is held."""

    @property
    def state(self) -> tuple[mx.array, mx.array]:
        """Keys and values that the next row may see: a function of the tokens fed, however they came."""
        return self._columns(self._begin(self.offset), self.offset)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return 0 if self._keys is None else int(self._keys.nbytes + self._values.nbytes)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows of shape (members, heads, rows, head_dim); return what the rows attend to."""
        start, rows = self.offset, keys.shape[2]
        end = start + rows
        self._reserve(keys, values, end)
        self._keys[..., start - self._first : end - self._first, :] = keys
        self._values[..., start - self._first : end - self._first, :] = values
        self.offset = end
        return self._columns(self._begin(start), self._end(start, rows))

    def make_mask(
        self,
        rows: int,
        *,
        return_array: bool = False,
        window_size: int | None = None,  # noqa: ARG002 (its own)
    ) -> mx.array | str | None:
        """Mask for `rows` new rows, asked for before they are appended."""
        begin, stop = self._begin(self.offset), self._end(self.offset, rows)
        whole = rows == 1 or self.offset + rows <= self.window
        if whole and stop == self.offset + rows and not return_array:
            return None if rows == 1 else "causal"
        columns, first = stop - begin, mx.array(self.offset - begin)
        if self.bucket is None or self._keys is None or return_array:
            return visible_columns(columns, rows, first, self.window)
        # One additive mask for all layers: a boolean one is converted again in every layer.
        return visible_scores(columns, rows, first, self._keys.dtype, self.window)

    # rule: rollback.exact-length, rollback.exact-state
    def rollback(self, length: int) -> None:
        """Keep the first `length` rows. Raises `CapabilityError` where rows that their window reaches are dropped."""
        if not 0 <= length <= self.offset or self._begin(length) < self._first:
            raise CapabilityError(
                f"a window of {self.window} rows that has read {self.offset} cannot be rolled back to {length}: it "
                f"holds those from {self._first} on"
            )
        self.offset = length

    def _begin(self, position: int) -> int:
        """The first position that a call reads whose first row stands at this one."""
        return max(0, position + 1 - self.window)

    def _end(self, position: int, rows: int) -> int:
        """Behind the last position that a call reads; with a bucket, calls of several rows see whole buckets."""
        end = position + rows
        if self.bucket is None or rows == 1:
            return end
        begin = self._begin(position)
        return begin + -(-(end - begin) // self.bucket) * self.bucket

    def _columns(self, begin: int, end: int) -> tuple[mx.array, mx.array]:
        place = slice(begin - self._first, end - self._first)
        return self._keys[..., place, :], self._values[..., place, :]

    def _reserve(self, keys: mx.array, values: mx.array, end: int) -> None:
        """Make room up to a position, and drop what neither the window nor a rollback will reach."""
        end += self.bucket or 0
        if self._keys is not None and end - self._first <= self._keys.shape[2]:
            return
        first = max(self._first, self._begin(self.offset - KEPT_BEHIND))
        room = end - self.offset + KEPT_BEHIND
        new_keys, new_values = (mx.zeros((*rows.shape[:2], room, rows.shape[3]), rows.dtype) for rows in (keys, values))
        if self._keys is None:
            self._keys, self._values = new_keys, new_values
            return
        held_keys, held_values = self._columns(first, self.offset)
        self._keys = mx.concatenate([held_keys, new_keys], axis=2)
        self._values = mx.concatenate([held_values, new_values], axis=2)
        self._first = first
