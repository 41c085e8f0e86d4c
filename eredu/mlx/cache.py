"""Key-value caches whose rollback is exact: append-only buffers rolled back by length, capacity kept.

The layout never depends on how tokens arrived, so a rolled-back cache is the cache of the tokens that remain. A
snapshot is never taken: holding one would force the next append to copy the whole buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from eredu.errors import CapabilityError
from eredu.mlx.adapter import AppendCache, LanguageModel, make_caches


class RollbackCache(AppendCache):  # type: ignore[misc]
    """Full-attention cache of one layer.

    With a `bucket`, calls of more than one row see keys and values padded to a multiple of it, with a mask: on CUDA
    every new pair of (rows, length) costs tens of milliseconds of planning, and padding leaves few of them. Calls of
    one row see the exact length and take the decode kernel.
    """

    offset: int

    def __init__(self, bucket: int | None = None) -> None:
        super().__init__()
        self.bucket = bucket
        if bucket is not None:
            self.step = bucket

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows of shape (1, heads, rows, head_dim); return what the rows attend to."""
        exact: tuple[mx.array, mx.array] = super().update_and_fetch(keys, values)
        if self.bucket is None or keys.shape[2] == 1:
            return exact
        length = self._padded(self.offset)
        return self.keys[..., :length, :], self.values[..., :length, :]

    def make_mask(
        self, rows: int, *, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Mask for `rows` new rows, asked for before they are appended."""
        if self.bucket is None or rows == 1 or window_size is not None:
            mask: mx.array | str | None = super().make_mask(rows, return_array=return_array, window_size=window_size)
            return mask
        columns = mx.arange(self._padded(self.offset + rows))
        return columns[None] <= mx.arange(self.offset, self.offset + rows)[:, None]

    def _padded(self, length: int) -> int:
        bucket = self.bucket or 1
        return -(-length // bucket) * bucket

    def rollback(self, length: int) -> None:
        """Keep the first `length` rows."""
        if not 0 <= length <= self.offset:
            raise CapabilityError(f"a cache of {self.offset} rows cannot be rolled back to {length}")
        self.offset = length


class SequenceCache:
    """All layers' caches of one sequence, moved together.

    Args:
        model: Asks for the kinds of cache it needs.
        bucket: See `RollbackCache`.
    """

    def __init__(self, model: LanguageModel, bucket: int | None = None) -> None:
        self.layers: list[Any] = [
            RollbackCache(bucket) if type(layer) is AppendCache else layer for layer in make_caches(model)
        ]
        self.bucket = bucket
        self._length = 0

    @property
    def length(self) -> int:
        """Tokens fed and not rolled back."""
        return self._length

    @property
    def stubborn_kinds(self) -> frozenset[str]:
        """Kinds of cache in use that cannot be rolled back exactly; empty if all can."""
        return frozenset(type(layer).__name__ for layer in self.layers if not isinstance(layer, RollbackCache))

    def feed(self, model: LanguageModel, tokens: mx.array) -> mx.array:
        """Run the model on tokens of shape (rows,); return logits of shape (rows, vocabulary), lazily."""
        logits = model(tokens[None], cache=self.layers)[0]
        self._length += tokens.shape[0]
        return logits

    def prefill(self, model: LanguageModel, tokens: Sequence[int]) -> None:
        """Feed tokens whose logits nobody reads, lazily.

        With a bucket the rows are padded to a power of two, so that prompts of all lengths share few shapes; the
        padding is rolled back at once and its rows are overwritten by what comes next.
        """
        length = self._length + len(tokens)
        padding = 0 if self.bucket is None or self.stubborn_kinds else _next_power(len(tokens)) - len(tokens)
        self.feed(model, mx.array([*tokens, *[0] * padding], dtype=mx.uint32))
        if padding:
            self.rollback(length)

    def rollback(self, length: int) -> None:
        """Keep the first `length` tokens. Raises `CapabilityError` where a layer cannot do so exactly."""
        if length == self._length:
            return
        if self.stubborn_kinds:
            raise CapabilityError(f"caches of kind {sorted(self.stubborn_kinds)} cannot be rolled back exactly")
        for layer in self.layers:
            layer.rollback(length)
        self._length = length

    def arrays(self) -> Sequence[Any]:
        """Everything that must be evaluated for the cache to be at rest."""
        return [layer.state for layer in self.layers if self._length > 0]


def _next_power(count: int) -> int:
    return 1 << (count - 1).bit_length()
