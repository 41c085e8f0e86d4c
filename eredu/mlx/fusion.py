"""Small pure functions, fused into few kernels on a GPU and run as they are on a CPU; the masks of padded attention.

On a GPU a small model is bound by the host, which pays for every kernel it queues. On a CPU compiling would ask for a
C++ compiler at run time and save nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
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


def visible_columns(columns: int, rows: int, first: mx.array) -> mx.array:
    """Which columns each new row sees, shape (rows, columns), bool.

    Args:
        columns: Columns in all, padding included.
        rows: New rows.
        first: The column of the first new row, shape (), integer.
    """
    return _visible(_numbers(columns), _numbers(rows), first)


def visible_scores(columns: int, rows: int, first: mx.array, dtype: mx.Dtype) -> mx.array:
    """The same, as what is added to attention scores: 0 where visible, else -inf; in `dtype`."""
    return _additive(_numbers(columns), _numbers(rows), first, *_bounds(dtype))


@fused
def _visible(columns: mx.array, rows: mx.array, first: mx.array) -> mx.array:
    return columns[None] <= (rows + first)[:, None]


@fused
def _additive(columns: mx.array, rows: mx.array, first: mx.array, seen: mx.array, unseen: mx.array) -> mx.array:
    return mx.where(columns[None] <= (rows + first)[:, None], seen, unseen)


@lru_cache(maxsize=64)
def _numbers(count: int) -> mx.array:
    """0, 1, 2, …, made once."""
    numbers = mx.arange(count)
    mx.eval(numbers)
    return numbers


@lru_cache(maxsize=8)
def _bounds(dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
    """0 and -inf of a type, made once."""
    bounds = mx.array(0.0, dtype=dtype), mx.array(-math.inf, dtype=dtype)
    mx.eval(*bounds)
    return bounds
