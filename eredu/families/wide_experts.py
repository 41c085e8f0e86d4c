"""Mixtures of experts in half precision on the CPU, where MLX multiplies by chosen experts in float32 alone.

The experts' weights are widened once, their inputs at each call, and their outputs narrowed back: the numbers of a
product in half precision that is summed in float32. Packed experts need none of this, nor do other devices.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

HALF = (mx.bfloat16, mx.float16)


def widen_experts(module: nn.Module) -> None:
    """Widen the experts of a module in place, if this is the CPU. Doing it again changes nothing."""
    if mx.default_device().type != mx.DeviceType.cpu:
        return
    for _, part in module.named_modules():
        kind: Any = type(part)
        experts = cast(Any, part)
        if kind.__name__ == "SwitchLinear" and experts.weight.dtype in HALF:
            experts.weight = experts.weight.astype(mx.float32)
            if not hasattr(kind, "_eredu_widened"):
                experts.__class__ = _widened(kind)


@cache
def _widened(original: Any) -> type[Any]:
    def call(self: Any, x: mx.array, *args: Any, **options: Any) -> mx.array:
        return cast(mx.array, original.__call__(self, x.astype(mx.float32), *args, **options).astype(x.dtype))

    methods = {"__call__": call, "_eredu_widened": True, "__module__": original.__module__}
    return type(original.__name__, (original,), methods)
