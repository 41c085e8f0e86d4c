"""Filling a head's module with tensors: every parameter, no other, packed layers as they were packed, and alive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from eredu.contract.errors import CheckpointError
from eredu.mlx.adapter import evaluate_model, quantize_as_stored

SHOWN = 4
"""Names that a message lists at the most."""


def fill_module(module: nn.Module, arrays: Mapping[str, mx.array], where: Path) -> None:
    """Load tensors, named as the module's parameters are, and evaluate them.

    Layers whose tensors have scales become packed layers of the same bits and groups.

    Raises `CheckpointError` naming tensors that are missing, left over, of another shape, not finite or without life.
    """
    quantize_as_stored(module, arrays)
    expected = parameters_of(module)
    _refuse(where, "lacks", expected.keys() - arrays.keys())
    _refuse(where, "also holds", arrays.keys() - expected.keys())
    _refuse(where, "has another shape for", {n for n, array in arrays.items() if array.shape != expected[n].shape})
    module.load_weights(list(arrays.items()), strict=True)
    module.eval()
    evaluate_model(module)
    require_alive(module, where)


def require_nothing_left(arrays: Mapping[str, mx.array], where: Path) -> None:
    """Raise `CheckpointError` naming tensors that no stage took."""
    _refuse(where, "also holds", set(arrays))


def require_alive(module: nn.Module, where: Path) -> None:
    """Refuse weights that no training left behind: not finite, zero, or the same number everywhere.

    A matrix, and each expert of a stack of matrices, must have two different values; a vector must not be zero.
    Packed layers are judged by their scales and biases. Raises `CheckpointError` naming them.
    """
    judged = {name: array for name, array in parameters_of(module).items() if array.dtype != mx.uint32}
    _refuse(where, "holds NaN or infinity in", {name for name, array in judged.items() if not _all(mx.isfinite(array))})
    dead = {name for name, array in judged.items() if _is_dead(name, array, judged)}
    _refuse(where, "was never trained: it holds one value alone in", dead)


def parameters_of(module: nn.Module) -> dict[str, mx.array]:
    """Parameters of a module by name."""
    return cast("dict[str, mx.array]", dict(tree_flatten(module.parameters())))


def _is_dead(name: str, array: mx.array, others: Mapping[str, mx.array]) -> bool:
    if name.endswith(".biases"):
        return False
    if name.endswith(".scales"):
        return _all(array == 0) and _all(others.get(f"{name.removesuffix('scales')}biases", mx.array(0)) == 0)
    if array.ndim < 2:
        return name.endswith("weight") and _all(array == 0)
    flat = array.reshape(-1, array.shape[-2] * array.shape[-1])
    return flat.shape[-1] > 1 and bool(mx.any(mx.all(flat == flat[:, :1], axis=-1)).item())


def _all(condition: mx.array) -> bool:
    return bool(mx.all(condition).item())


def _refuse(where: Path, what: str, names: set[str]) -> None:
    if names:
        shown = sorted(names)[:SHOWN]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        raise CheckpointError(
            f"the prediction head in {where} {what} {', '.join(shown)}{more}; fetch it again, or decode plainly "
            "(--no-mtp)"
        )
