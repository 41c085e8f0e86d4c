"""Patch of mlx-lm's ERNIE 4.5: experts are chosen by chance plus correction bias, and weighed by chance alone."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.mlx_lm_patches import Patch, override

LEAST = 1e-12
"""Divisor below which the chosen chances are not normalised, `moe_norm_min` of the config."""


def choose_with_biases(original: type[Any]) -> dict[str, Any]:  # noqa: ARG001 (nothing of it is used)
    """The published mixture; Transformers chooses in float32 whatever type the model has."""

    def call(self: Any, x: mx.array) -> mx.array:
        chances = self.gate_act(self.gate(x).astype(mx.float32))
        order = chances + self.moe_statics.e_score_correction_bias.astype(mx.float32)
        chosen = mx.argpartition(-order, kth=self.k - 1, axis=-1)[..., : self.k]
        shares = mx.take_along_axis(chances, chosen, axis=-1)
        shares = shares / mx.maximum(shares.sum(axis=-1, keepdims=True), LEAST)
        mixed = (self.switch_mlp(x, chosen) * shares[..., None]).sum(axis=-2).astype(x.dtype)
        return cast(mx.array, mixed if self.shared_experts is None else mixed + self.shared_experts(x))

    return {"__call__": call}


PATCHES = (
    Patch(
        name="biased choice",
        reason="mlx-lm drops the correction biases by which ERNIE 4.5 chooses its experts, and takes others.",
        classes=("ernie4_5_moe.Ernie4_5_MoeMLP",),
        change=lambda module: override(module, choose_with_biases),
    ),
)
