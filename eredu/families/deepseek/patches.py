"""Patches of mlx-lm's DeepSeek V3 and V3.2: group routing, the indexer's norm, and blocks computed as their rows."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.latent_rows import latent_rows
from eredu.families.mlx_lm_patches import BLOCK_ROWS, Patch, override
from eredu.families.routing import group_routing

INDEX_NORM_EPS = 1e-6
"""Of DeepSeek's published inference code, which Transformers follows."""


def _sparse_attention(original: type[Any]) -> dict[str, Any]:
    """Rows in turn: the indexer picks keys by rank, and a rank must not depend on how a sum was ordered."""

    def call(self: Any, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        rows = x.shape[1]
        if cache is None or x.shape[0] > 1 or not 1 < rows <= BLOCK_ROWS:
            return cast(mx.array, original.__call__(self, x, mask, cache))
        each = [original.__call__(self, x[:, row : row + 1], None, cache) for row in range(rows)]
        return mx.concatenate(each, axis=1)

    return {"__call__": call}


def _set_index_norm(indexer: Any) -> None:
    indexer.k_norm.eps = INDEX_NORM_EPS


PATCHES = (
    group_routing("deepseek_v3.MoEGate", "deepseek_v32.MoEGate"),
    Patch(
        name="index norm",
        reason="mlx-lm norms the index keys with an epsilon of 1e-5; the published one is 1e-6.",
        classes=("deepseek_v32.Indexer",),
        change=_set_index_norm,
    ),
    latent_rows("deepseek_v3.DeepseekV3Attention"),
    Patch(
        name="sparse rows",
        reason="mlx-lm scores the index keys of several rows in one product, whose sums are ordered otherwise.",
        classes=("deepseek_v32.DeepseekV32Attention",),
        change=lambda module: override(module, _sparse_attention),
        of_blocks=True,
    ),
)
