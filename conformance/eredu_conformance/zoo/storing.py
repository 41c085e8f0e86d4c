"""Half and quarter precision as publishers store them, in numbers that numpy lacks: bfloat16, and fp8 in scaled blocks.

Rounding is to the nearest. What fp8 looks like, family by family, is in `eight_bits`.
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
from eredu_conformance.zoo.eight_bits import DEEPSEEK, Fp8Form, decode, encode, split_experts

_WIDE = re.compile(r"A_log|correction_bias")


class Precision(StrEnum):
    """How a published checkpoint stores its weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    """All but routing biases and decay rates."""
    FP8 = "fp8"
    """As the family's fp8 releases store them."""


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


def stored_as(tensors: Tensors, precision: Precision, form: Fp8Form = DEEPSEEK) -> dict[str, Stored]:
    """Tensors in a precision; fp8 weights bring their scales, in the form of a publisher."""
    result: dict[str, Stored] = {}
    for name, array in (split_experts(tensors) if precision is Precision.FP8 and form.single else tensors).items():
        if precision is Precision.FP8 and form.stores(name, array):
            words, scales = encode(array, form.block)
            result[name] = Stored("F8_E4M3", words)
            scales = scales.reshape(()) if form.block == (0, 0) else scales
            held = Stored("BF16", _bfloat16(scales)) if form.scale_dtype == "BF16" else Stored("F32", scales)
            result[f"{name}{form.ending}"] = held
            if form.static:
                result[f"{name.removesuffix('weight')}input_scale"] = Stored("F32", np.array(0.5, dtype=np.float32))
        elif precision is Precision.FLOAT32 or _WIDE.search(name):
            result[name] = Stored("F32", array)
        else:
            result[name] = Stored("BF16", _bfloat16(array))
    return result


def rounded(tensors: Tensors, precision: Precision, form: Fp8Form = DEEPSEEK) -> Tensors:
    """The float32 values of tensors that were stored in a precision, under the names that they had."""
    result: Tensors = {}
    for name, array in tensors.items():
        parts = split_experts({name: array}) if form.single else {name: array}
        if precision is Precision.FP8 and all(form.stores(part, each) for part, each in parts.items()):
            values = {part: decode(*encode(each, form.block), form.block) for part, each in parts.items()}
            result[name] = values[name] if name in values else _packed(list(values.values()), array.shape)
        elif precision is Precision.FLOAT32 or _WIDE.search(name):
            result[name] = array
        else:
            result[name] = _widened(_bfloat16(array))
    return result


def _packed(experts: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Experts in one tensor again, gate above up."""
    return np.concatenate(experts).reshape(shape)


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
