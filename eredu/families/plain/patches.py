"""Patches of modules that many families share: mixtures of experts in half precision on the CPU.

The experts' weights are widened once, their inputs at each call, and their outputs narrowed back: the numbers of a
product in half precision that is summed in float32. Packed experts need none of this, nor do other devices.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.mlx_lm_patches import Patch, override

HALF = (mx.bfloat16, mx.float16)


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
        name="wide experts",
        reason="On the CPU, MLX multiplies by chosen experts in float32 alone.",
        classes=("switch_layers.SwitchLinear",),
        change=widen_experts,
    ),
)
