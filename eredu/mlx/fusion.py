"""Small pure functions, fused into few kernels on a GPU and run as they are on a CPU.

On a GPU a small model is bound by the host, which pays for every kernel it queues. On a CPU compiling would ask for a
C++ compiler at run time and save nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import mlx.core as mx

Parameters = ParamSpec("Parameters")


def fused(function: Callable[Parameters, mx.array]) -> Callable[Parameters, mx.array]:
    """The function, compiled where the default device is a GPU. It must depend on its arguments alone."""
    compiled: Callable[Parameters, mx.array] = mx.compile(function)

    @wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> mx.array:
        on_gpu = mx.default_device().type == mx.DeviceType.gpu
        return compiled(*arguments, **options) if on_gpu else function(*arguments, **options)

    return call
