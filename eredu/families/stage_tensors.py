"""Tensors of one stage of staged heads, converted exactly as the target's own layers are.

A stage's blocks are decoder layers under other numbers, so they pass through the very conversion that mlx-lm gives
the target's layers, renumbered from 0: block-scaled fp8 and packed weights, experts stacked, key-value projections
split. A conversion that was done already is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import mlx.nn as nn

from eredu.contract.errors import CheckpointError
from eredu.families.head_tensors import HeadTensors
from eredu.families.target_parts import TargetParts


def convert_blocks(
    tensors: HeadTensors, parts: TargetParts, prefixes: Sequence[str], *, layers: str
) -> list[dict[str, mx.array]]:
    """Tensors of consecutive blocks, by name within the block.

    Args:
        tensors: Tensors of all heads.
        parts: The target's.
        prefixes: Published prefix of each block, such as `layers.61.`.
        layers: Prefix of the target's layers, in front of their numbers, as mlx-lm's conversion expects it.

    Raises `CheckpointError` where the conversion misses a tensor.
    """
    renumbered = {
        f"{layers}{number}.{name.removeprefix(prefix)}": array
        for number, prefix in enumerate(prefixes)
        for name, array in tensors.arrays.items()
        if name.startswith(prefix)
    }
    try:
        converted = parts.sanitize(renumbered)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:  # mlx-lm takes for granted that all are there
        raise CheckpointError(
            f"the tensors of the prediction head in {tensors.directory} do not fit each other or are not all there "
            f"({error}, with {prefixes[0]} counted from {layers}0); fetch it again, or decode plainly (--no-mtp)"
        ) from error
    blocks: list[dict[str, mx.array]] = [{} for _ in prefixes]
    for name, array in converted.items():
        number, _, inner = name.removeprefix(layers).partition(".")
        blocks[int(number)][inner] = array
    return blocks


def take_module(arrays: dict[str, mx.array], prefix: str) -> dict[str, mx.array]:
    """Take the tensors of one module out of a block's, by parameter name."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def is_copy(own: Mapping[str, mx.array], shared: object) -> bool:
    """Whether a module's tensors are those of the target's module, in whatever floating type that was cast to."""
    theirs = dict(shared.items()) if isinstance(shared, nn.Module) else {}
    return own.keys() == {name for name, value in theirs.items() if isinstance(value, mx.array)} and all(
        array.shape == theirs[name].shape and mx.array_equal(array.astype(theirs[name].dtype), theirs[name]).item()
        for name, array in own.items()
    )
