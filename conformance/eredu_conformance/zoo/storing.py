"""Half and quarter precision as publishers store them, in numbers that numpy lacks: bfloat16, and fp8 in scaled blocks.

Rounding is to the nearest. DeepSeek V3 and V3.2 are released in fp8 (e4m3) with a float32 scale for each block of
128 × 128 weights; embeddings, norms, routers, output projections and the heads' fusion stay bfloat16.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu_conformance.zoo.drawing import Tensor, Tensors

FP8_LARGEST = 448.0
FP8_BLOCK = 128
_KEPT = re.compile(r"embed_tokens|norm|lm_head|shared_head|mlp\.gate\.|eh_proj|weights_proj")
_WIDE = re.compile(r"A_log|correction_bias")


class Precision(StrEnum):
    """How a published checkpoint stores its weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    """All but routing biases and decay rates."""
    FP8 = "fp8"
    """DeepSeek's releases."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor as it lies in a file.

    Attributes:
        dtype: SafeTensors' name of its type.
        words: Its bits.
    """

    dtype: str
    words: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return int(self.words.nbytes)


def stored_as(tensors: Tensors, precision: Precision) -> dict[str, Stored]:
    """Tensors in a precision; fp8 weights bring their `weight_scale_inv`."""
    result: dict[str, Stored] = {}
    for name, array in tensors.items():
        if precision is Precision.FP8 and array.ndim == 2 and not _KEPT.search(name):
            words, scales = _fp8(array)
            result[name] = Stored("F8_E4M3", words)
            result[f"{name}_scale_inv"] = Stored("F32", scales)
        elif precision is Precision.FLOAT32 or _WIDE.search(name):
            result[name] = Stored("F32", array)
        else:
            result[name] = Stored("BF16", _bfloat16(array))
    return result


def rounded(tensors: Tensors, precision: Precision) -> Tensors:
    """The float32 values of tensors that were stored in a precision; fp8 is read as bfloat16, as mlx-lm reads it."""
    result: Tensors = {}
    for name, stored in stored_as(tensors, precision).items():
        if name.endswith("_scale_inv"):
            continue
        if stored.dtype == "F8_E4M3":
            scales = np.repeat(np.repeat(_fp8(tensors[name])[1], FP8_BLOCK, 0), FP8_BLOCK, 1)
            values = _FP8_VALUES[stored.words] * scales[: stored.words.shape[0], : stored.words.shape[1]]
            result[name] = _widened(_bfloat16(np.asarray(values, dtype=np.float32)))
        else:
            result[name] = _widened(stored.words) if stored.dtype == "BF16" else stored.words
    return result


def save_stored(tensors: Mapping[str, Stored], path: Path, layout: str) -> None:
    """Write a SafeTensors file with `format` in its metadata."""
    header: dict[str, Any] = {"__metadata__": {"format": layout}}
    start = 0
    for name, stored in sorted(tensors.items()):
        end = start + stored.nbytes
        header[name] = {"dtype": stored.dtype, "shape": list(stored.words.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(np.ascontiguousarray(stored.words).tobytes() for _, stored in sorted(tensors.items()))
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def _bfloat16(array: Tensor) -> NDArray[np.uint16]:
    """The upper half of float32's bits, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    return np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, dtype=np.uint16)


def _widened(words: NDArray[Any]) -> Tensor:
    return (np.ascontiguousarray(words).astype(np.uint32) << 16).view(np.float32)


def _fp8_values() -> Tensor:
    """The value of each byte in e4m3 without infinities; NaN for the two that are none."""
    byte = np.arange(256)
    exponent, fraction = (byte >> 3) & 15, byte & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    size[(byte & 127) == 127] = np.nan
    return np.asarray(np.where(byte < 128, size, -size), dtype=np.float32)


_FP8_VALUES = _fp8_values()


def _fp8(array: Tensor) -> tuple[NDArray[np.uint8], Tensor]:
    """Bytes, and the scale by which each block of values is multiplied."""
    rows, columns = (-(-size // FP8_BLOCK) for size in array.shape)
    scales = np.empty((rows, columns), dtype=np.float32)
    words = np.empty(array.shape, dtype=np.uint8)
    order = np.argsort(_FP8_VALUES[:127])
    for row in range(rows):
        for column in range(columns):
            place = np.s_[
                row * FP8_BLOCK : (row + 1) * FP8_BLOCK,
                column * FP8_BLOCK : (column + 1) * FP8_BLOCK,
            ]
            block = array[place]
            scales[row, column] = scale = max(float(np.abs(block).max()) / FP8_LARGEST, 1e-12)
            grid = _FP8_VALUES[order]
            above = np.clip(np.searchsorted(grid, np.abs(block) / scale), 1, len(grid) - 1)
            nearer = np.abs(block) / scale - grid[above - 1] < grid[above] - np.abs(block) / scale
            words[place] = order[np.where(nearer, above - 1, above)] + 128 * (block < 0)
    return words, scales
