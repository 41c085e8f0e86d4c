"""Weights in eight-bit floats (e4m3) with scales, planned from headers alone: which scale multiplies which weights.

A release stores a tensor of bytes and, under its name with `_scale_inv` or `_scale` behind it, what to multiply the
decoded bytes with: one number for each block of 128 × 128 weights (DeepSeek, Qwen, MiMo), for each row (GLM), or for
the whole matrix (Nemotron); experts in one tensor have such scales each. All are scales of blocks of some shape. Which
weights are stored so the tensors say themselves: modules that a release lists as left out (`modules_to_not_convert`,
`ignored_layers`, `ignore`) have neither bytes nor scales.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError

BYTES, EXPONENTS = "F8_E4M3", "F8_E8M0"
"""Types of the weights, and of scales that are powers of two."""
SCALE_TYPES = frozenset({"F32", "BF16", "F16", EXPONENTS})
SCALE_ENDINGS = ("_scale_inv", "_scale")
USUAL_BLOCK = (128, 128)
"""Of scales that are neither of rows nor of whole matrices, where no config gives the size."""
ACTIVATIONS = re.compile(r"\.(?:(?:input|output|activation|act)_scale|[qkv]_scale|kv_scale)(?:_inv)?$")
"""Scales of what layers read and of caches: an engine that computes in more than eight bits has no use for them."""


@dataclass(frozen=True, slots=True)
class ScaledWeight:
    """One tensor of bytes with its scales.

    Attributes:
        weight: Its name.
        scale: Name of the scales, one for each block, in the order of rows and columns of blocks.
        block: Rows and columns that share a scale; the last block of either may be cut by the edge.
        exponents: Whether scales are stored as exponents of two, 127 higher.
    """

    weight: str
    scale: str
    block: tuple[int, int]
    exponents: bool = False


def scaled_weights(
    tensors: Collection[StoredTensor], block: tuple[int, int] | None, directory: Path
) -> tuple[ScaledWeight, ...]:
    """All weights that are stored as bytes with scales.

    Args:
        tensors: Of the checkpoint.
        block: Rows and columns of a block, as the config gives them; None where it gives none.
        directory: Named by errors.

    Raises `CheckpointError` for bytes without scales, and for scales that do not fit their weights.
    """
    named = {tensor.name: tensor for tensor in tensors}
    return tuple(_scaled(tensor, named, block, directory) for tensor in tensors if _is_weight(tensor))


def _is_weight(tensor: StoredTensor) -> bool:
    """Scales of other methods may be stored as such bytes too."""
    return tensor.dtype == BYTES and not tensor.name.endswith(SCALE_ENDINGS)


def _scaled(
    weight: StoredTensor, named: Mapping[str, StoredTensor], block: tuple[int, int] | None, directory: Path
) -> ScaledWeight:
    scale = next((named[name] for name in (f"{weight.name}{end}" for end in SCALE_ENDINGS) if name in named), None)
    if scale is None:
        raise CheckpointError(
            f"{weight.name} of {directory} is stored in eight-bit floats, and nothing gives its scales; expected "
            f"{weight.name}{SCALE_ENDINGS[0]} beside it: fetch all weight files"
        )
    if scale.dtype not in SCALE_TYPES:
        raise CheckpointError(
            f"{scale.name} of {directory} has the type {scale.dtype}; expected scales in one of "
            f"{', '.join(sorted(SCALE_TYPES))}"
        )
    found = _block(weight.shape, scale.shape, block)
    if found is None:
        stated = "" if block is None else f" and the config's blocks of {block[0]} × {block[1]}"
        raise CheckpointError(
            f"{scale.name} of {directory} has the shape {list(scale.shape)}, which does not fit weights of shape "
            f"{list(weight.shape)}{stated}; config and weights are not of one checkpoint"
        )
    return ScaledWeight(weight.name, scale.name, found, scale.dtype == EXPONENTS)


def _block(weight: tuple[int, ...], scale: tuple[int, ...], stated: tuple[int, int] | None) -> tuple[int, int] | None:
    """Rows and columns that share a scale, by the shapes; None where they fit no way of sharing."""
    if len(weight) < 2:
        return (1, max(1, math.prod(weight))) if math.prod(scale) == 1 else None
    *stack, rows, columns = weight
    if math.prod(scale) == math.prod(stack) and set(scale) <= {1, *stack}:
        return rows, columns
    for block in filter(None, (stated, None if stated else (1, columns), None if stated else USUAL_BLOCK)):
        due = (*stack, -(-rows // block[0]), -(-columns // block[1]))
        if scale == due or (block == (1, columns) and scale == (*stack, rows)):
            return min(block[0], rows), min(block[1], columns)
    return (1, columns) if scale == (*stack, rows, 1) else None
