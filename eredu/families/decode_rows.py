"""Blocks of rows computed as decoding computes each row, and the states behind them noted for rollback.

mlx-lm has two formulas for some layers. Latent attention (DeepSeek) folds its key and value projections into query and
output for one row, and unfolds the latents for several; Mamba 2 (Nemotron-H) runs its recurrence for one row and its
chunked form for several. Both pairs agree on paper and differ by about 1e-5 in float32, so a verified row would not be
the decoded row, nor what stays in the caches. Layers changed by `compute_blocks_as_decoding` take the formula of one
row for blocks of up to `BLOCK_ROWS` rows: verified rows then equal decoded rows as far as the kernels below them do,
which on the stock CPU wheel is bit for bit. Longer feeds, which only prefill makes, keep the fast form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as cached
from typing import Any, cast

import mlx.core as mx

from eredu.contract.options import MAX_PROPOSALS
from eredu.mlx.adapter import LanguageModel
from eredu.mlx.gated_rows import lend_gated_delta
from eredu.mlx.taps import note_states

BLOCK_ROWS = MAX_PROPOSALS + 1
"""Rows of the longest verification: the leading token and the proposals."""

NOTED_ROWS = 17
"""Rows of the longest block whose states are kept for rollback: more would cost more memory than time."""


class RowBatchCache:
    """A latent cache as attention sees it whose batch is the rows of one sequence.

    Args:
        cache: The layer's cache, of one sequence.
        rows: Rows of the block; they are appended in order.
    """

    def __init__(self, cache: Any, rows: int) -> None:
        self._cache = cache
        self.offset = mx.arange(cache.offset, cache.offset + rows)

    def update_and_fetch(self, latents: mx.array, keys: mx.array) -> tuple[mx.array, mx.array]:
        """Append rows of shape (rows, 1, 1, width); return all rows for each, (rows, 1, length, width)."""
        rows = latents.shape[0]
        held = self._cache.update_and_fetch(latents.transpose(2, 1, 0, 3), keys.transpose(2, 1, 0, 3))
        first, second = (mx.broadcast_to(array, (rows, *array.shape[1:])) for array in held)
        return first, second


def compute_blocks_as_decoding(model: LanguageModel) -> None:
    """Change the layers of a model that have two formulas. Doing it again changes nothing; other models stay."""
    for layer in cast(Any, model).layers:
        for name in ("self_attn", "mixer", "linear_attn"):
            module = layer.get(name)
            kind: Any = type(module)
            change = _CHANGES.get(kind.__name__)
            if change is not None and not hasattr(kind, "_eredu_blocks"):
                module.__class__ = change(kind)


@cached
def _latent_attention(original: type[Any]) -> type[Any]:
    """Rows in the batch: one pass over the weights, and one row of attention for each."""

    def call(self: Any, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        rows = x.shape[1]
        if cache is None or x.shape[0] > 1 or not 1 < rows <= BLOCK_ROWS or getattr(mask, "ndim", 0) != 2:
            return cast(mx.array, original.__call__(self, x, mask, cache))
        batch = original.__call__(self, x.swapaxes(0, 1), mask[:, None, None], RowBatchCache(cache, rows))
        return cast(mx.array, batch.swapaxes(0, 1))

    return _changed(original, {"__call__": call})


@cached
def _sparse_attention(original: type[Any]) -> type[Any]:
    """Rows in turn: the indexer picks keys by rank, and a rank must not depend on how a sum was ordered."""

    def call(self: Any, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        rows = x.shape[1]
        if cache is None or x.shape[0] > 1 or not 1 < rows <= BLOCK_ROWS:
            return cast(mx.array, original.__call__(self, x, mask, cache))
        each = [original.__call__(self, x[:, row : row + 1], None, cache) for row in range(rows)]
        return mx.concatenate(each, axis=1)

    return _changed(original, {"__call__": call})


@cached
def _state_space(original: type[Any]) -> type[Any]:
    """The recurrence in turn, its state noted behind each row; projections and convolution stay in one piece."""

    def recur(self: Any, x: mx.array, b: mx.array, c: mx.array, dt: mx.array, cache: Any, mask: Any) -> mx.array:
        rows = x.shape[1]
        # The underscored hook is mlx-lm's; the adapter's contract test pins it.
        step = original._ssm  # noqa: SLF001
        if cache is None or mask is not None or not 1 < rows <= BLOCK_ROWS:
            return cast(mx.array, step(self, x, b, c, dt, cache, mask))
        each, states = [], []
        for row in range(rows):
            each.append(step(self, *(part[:, row : row + 1] for part in (x, b, c, dt)), cache, None))
            states.append(cache[1])
        if rows <= NOTED_ROWS:
            note_states(self, states)
        return mx.concatenate(each, axis=1)

    return _changed(original, {"_ssm": recur})


@cached
def _gated_delta(original: type[Any]) -> type[Any]:
    """The recurrence in turn, its state noted behind each row; its formula is the same for one row and several."""
    lending = lend_gated_delta(original)

    def call(self: Any, inputs: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        block = cache is not None and mask is None and inputs.shape[0] == 1 and 1 < inputs.shape[1] <= NOTED_ROWS
        with lending((lambda states: note_states(self, states)) if block else None):
            return cast(mx.array, original.__call__(self, inputs, mask, cache))

    return _changed(original, {"__call__": call})


def _changed(original: type[Any], methods: dict[str, Any]) -> type[Any]:
    """A subclass under the original's name, by which other rooms know the layer."""
    return type(original.__name__, (original,), {**methods, "_eredu_blocks": True, "__module__": original.__module__})


_CHANGES: dict[str, Callable[[Any], type[Any]]] = {
    "DeepseekV3Attention": _latent_attention,
    "DeepseekV32Attention": _sparse_attention,
    "GatedDeltaNet": _gated_delta,
    "Qwen3NextGatedDeltaNet": _gated_delta,
    "NemotronHMamba2Mixer": _state_space,
}
"""By the class of the layer in mlx-lm."""
