"""Latent attention (DeepSeek V3 and those that took it over): a block attends as decoding does, row by row."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.mlx_lm_patches import BLOCK_ROWS, Patch, override


def latent_rows(*classes: str) -> Patch:
    """The patch of latent attention."""
    return Patch(
        name="latent rows",
        reason="mlx-lm folds the latent projections for one row, and unfolds the latents for several.",
        classes=classes,
        change=lambda module: override(module, _latent_attention),
        of_blocks=True,
    )


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


def _latent_attention(original: type[Any]) -> dict[str, Any]:
    """Rows in the batch: one pass over the weights, and one row of attention for each."""

    def call(self: Any, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        rows = x.shape[1]
        if cache is None or x.shape[0] > 1 or not 1 < rows <= BLOCK_ROWS or getattr(mask, "ndim", 0) != 2:
            return cast(mx.array, original.__call__(self, x, mask, cache))
        batch = original.__call__(self, x.swapaxes(0, 1), mask[:, None, None], RowBatchCache(cache, rows))
        return cast(mx.array, batch.swapaxes(0, 1))

    return {"__call__": call}
