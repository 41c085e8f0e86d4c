"""One-token steps of a small drafter as one compiled function of its cache's buffers.

On CUDA a small drafter is bound by the host, which builds some seventy operations for every proposal. Compiled, the
graph is built once for each capacity of the buffers. A compiled function cannot write in place, so each step copies
the buffers: worth it only while they are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import mlx.core as mx

from eredu.mlx.adapter import LanguageModel
from eredu.mlx.fusion import visible_scores

SMALL = 32 * 2**20
"""Bytes of buffers up to which copying them costs less than building the graph."""

Step = Callable[..., list[mx.array]]


class CompiledSteps:
    """The compiled steps of one model; one trace for each stream and each shape of buffers.

    Args:
        model: A decoder whose caches are all append-only. Its weights must not change any more.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._compiled: dict[str, Step] = {}

    def step(self, token: mx.array, offset: int, buffers: list[mx.array]) -> tuple[mx.array, list[mx.array]]:
        """Feed one token behind `offset` rows.

        Args:
            token: Shape (1,), uint32.
            offset: Rows in the buffers, fewer than their capacity.
            buffers: Keys and values of each layer in turn, shape (1, heads, capacity, head_dim).

        Returns:
            Logits of shape (1, vocabulary), and the new buffers. All lazy.
        """
        stream = repr(mx.default_stream(mx.default_device()))  # a trace belongs to the stream that it was made in
        compiled = self._compiled.get(stream)
        if compiled is None:
            compiled = self._compiled[stream] = cast(Step, mx.compile(self._step))
        logits, *grown = compiled(token, mx.array(offset), *buffers)
        return logits, grown

    def _step(self, token: mx.array, offset: mx.array, *buffers: mx.array) -> list[mx.array]:
        caches = [_Buffers(keys, values, offset) for keys, values in zip(buffers[::2], buffers[1::2], strict=True)]
        logits = self._model(token[None], cache=cast("list[Any]", caches))[0]
        return [logits, *(array for cache in caches for array in (cache.keys, cache.values))]


class _Buffers:
    """Buffers of one layer inside a trace, as mlx-lm's models use a cache: the offset is an array."""

    def __init__(self, keys: mx.array, values: mx.array, offset: mx.array) -> None:
        self.keys = keys
        self.values = values
        self.offset = offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Put a row at the offset; attention sees the whole buffers."""
        start = self.offset[None]
        self.keys = mx.slice_update(self.keys, keys, start, axes=(2,))
        self.values = mx.slice_update(self.values, values, start, axes=(2,))
        return self.keys, self.values

    def make_mask(
        self,
        rows: int,
        *,
        return_array: bool = False,  # noqa: ARG002
        window_size: int | None = None,  # noqa: ARG002
    ) -> mx.array:
        """What hides the rows behind the offset."""
        return visible_scores(self.keys.shape[2], rows, self.offset, self.keys.dtype)
