"""Where mlx-lm's decoder is not the published model, or computes a block otherwise than its rows: mended once loaded.

- Group routing may take an expert of a group that was left out: `eredu.families.routing`.
- The index keys of DeepSeek V3.2 are normed with an epsilon of 1e-5; the published one is 1e-6.
- On the CPU, MLX has no product by chosen experts in half precision: `eredu.families.wide_experts`.
- A block's rows are computed by another formula than one row: `eredu.families.decode_rows`.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.nn as nn

from eredu.families.decode_rows import compute_blocks_as_decoding
from eredu.families.routing import lift_correction_biases
from eredu.families.wide_experts import widen_experts
from eredu.mlx.adapter import LanguageModel, evaluate_model

INDEX_NORM_EPS = 1e-6
"""Of DeepSeek's published inference code, which Transformers follows."""


def mend_target(model: LanguageModel) -> None:
    """Mend a loaded decoder in place. Doing it again changes nothing; families without faults stay as they are."""
    mend_layers(cast(nn.Module, model))
    compute_blocks_as_decoding(model)


def mend_layers(module: nn.Module) -> None:
    """Mend decoder layers, a head's too, whose blocks of rows may be computed in any way; again after a cast."""
    lift_correction_biases(module)
    widen_experts(module)
    for _, part in module.named_modules():
        if type(part).__name__ == "Indexer" and "k_norm" in part:
            cast(Any, part).k_norm.eps = INDEX_NORM_EPS
    evaluate_model(module)
