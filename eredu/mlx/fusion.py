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


def visible_columns(columns: int, rows: int, first: mx.array, window: int | None = None) -> mx.array:
    """Which columns each new row sees, shape (rows, columns), bool.

    Args:
        columns: Columns in all, padding included.
        rows: New rows.
        first: The column of the first new row, shape (), integer.
        window: Columns that a row sees, its own too; None for all before it.
    """
    return _visible(_numbers(columns), _numbers(rows), first, _constant(columns if window is None else window))


def visible_scores(columns: int, rows: int, first: mx.array, dtype: mx.Dtype, window: int | None = None) -> mx.array:
    """The same, as what is added to attention scores: 0 where visible, else -inf; in `dtype`."""
    reach = _constant(columns if window is None else window)
    return _additive(_numbers(columns), _numbers(rows), first, reach, *_bounds(dtype))


@fused
def _visible(columns: mx.array, rows: mx.array, first: mx.array, reach: mx.array) -> mx.array:
    behind = (rows + first)[:, None] - columns[None]
    return (behind >= 0) & (behind < reach)


@fused
def _additive(
    columns: mx.array, rows: mx.array, first: mx.array, reach: mx.array, seen: mx.array, unseen: mx.array
) -> mx.array:
    behind = (rows + first)[:, None] - columns[None]
    return mx.where((behind >= 0) & (behind < reach), seen, unseen)


@lru_cache(maxsize=64)
def _constant(value: int) -> mx.array:
    """A number, made once."""
    number = mx.array(value)
    mx.eval(number)
    return number


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
