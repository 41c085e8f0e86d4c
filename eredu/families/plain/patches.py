"""Patches of modules that many families share: mixtures of experts.

Weights that a release stacks (gate and up projections in one tensor) are views of it once mlx-lm has cut them apart.
MLX multiplies sorted rows by chosen experts as if the experts of a view lay end to end: the products are wrong, without
a word, for every text long enough to be sorted (32 rows of two experts each). Each view is copied once.

On the CPU the experts of models in half precision are widened once, their inputs at each call, and their outputs
narrowed back: the numbers of a product in half precision that is summed in float32. Packed experts need none of this,
nor do other devices.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.mlx_lm_patches import Patch, override

HALF = (mx.bfloat16, mx.float16)


def gather_experts(experts: Any) -> None:
    """Let the arrays of stacked experts lie end to end, in place; one by one, so that one copy at a time is alive."""
    for name in ("weight", "scales", "biases"):
        if name in experts:
            experts[name] = mx.contiguous(experts[name])
            mx.eval(experts[name])


def widen_experts(experts: Any) -> None:
    """Widen stacked experts in place, if this is the CPU."""
    if mx.default_device().type == mx.DeviceType.cpu and experts.weight.dtype in HALF:
        experts.weight = experts.weight.astype(mx.float32)
        override(experts, _in_float32)


def _in_float32(original: Any) -> dict[str, Any]:
    def call(self: Any, x: mx.array, *args: Any, **options: Any) -> mx.array:
        return cast(mx.array, original.__call__(self, x.astype(mx.float32), *args, **options).astype(x.dtype))

    return {"__call__": call}


PATCHES = (
    Patch(
        name="whole experts",
        reason="MLX reads the experts of a view as if they lay end to end (seen on CUDA; mlx issue 4055 on Metal).",
        classes=("switch_layers.SwitchLinear", "switch_layers.QuantizedSwitchLinear"),
        change=gather_experts,
    ),
    Patch(
        name="wide experts",
        reason="On the CPU, MLX multiplies by chosen experts in float32 alone.",
        classes=("switch_layers.SwitchLinear",),
        change=widen_experts,
    ),
)
