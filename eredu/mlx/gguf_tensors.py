"""Tensors of GGUF files as MLX arrays. MLX's own reader is never given a file.

That reader ends the process on metadata of some valid types, drops tensors of types it does not know, and decodes some
wrongly; and its lengths come from the file. Here `eredu.checkpoints.gguf_header` has read and checked the header, and
bytes are decoded by NumPy or by the `gguf` package. Q4_0, Q4_1 and Q8_0 keep their bits in MLX's packed layout (groups
of 32); other block types are widened to float16; whole types stay what they are.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.checkpoints.gguf_header import GgufHeader, PlacedTensor
from eredu.checkpoints.gguf_types import require_decodable
from eredu.contract.errors import CheckpointError

Bytes = NDArray[np.uint8]
Decoder = Callable[[Bytes], dict[str, NDArray[Any]]]

GROUP = 32
SLICE_CELLS = 1 << 24
"""Weights that are decoded at a time, so that their float32 form stays small."""
PLAIN = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64}
"""Types whose bytes are the array's."""


def read_gguf_tensors(header: GgufHeader) -> dict[str, mx.array]:
    """All tensors by name; of a packed `NAME.weight` also `NAME.scales` and `NAME.biases`.

    Raises `CheckpointError` for types that cannot be decoded, all before anything is read, and for unreadable files.
    """
    require_decodable(header)
    arrays: dict[str, mx.array] = {}
    for file in header.files:
        for tensor, data in _stored(file, [tensor for tensor in header.tensors if tensor.file == file.name]):
            arrays |= _decode(tensor, data)
    return arrays


def _stored(file: Path, tensors: list[PlacedTensor]) -> Iterator[tuple[PlacedTensor, Bytes]]:
    """Each tensor of one file with its bytes, which are good until the next one is asked for."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            for tensor in tensors:
                yield tensor, np.frombuffer(mapped[tensor.offset : tensor.offset + tensor.size_bytes], np.uint8)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} could not be read: {error}") from error


def _decode(tensor: PlacedTensor, data: Bytes) -> dict[str, mx.array]:
    name, shape = tensor.name, tensor.shape
    if tensor.dtype in PLAIN:
        return {name: mx.array(data.view(PLAIN[tensor.dtype]).reshape(shape))}
    if tensor.dtype == "F64":
        return {name: mx.array(data.view(np.float64).astype(np.float32).reshape(shape))}
    if tensor.dtype == "BF16":
        return {name: mx.array(data.view(np.uint16).reshape(shape)).view(mx.bfloat16)}
    if tensor.dtype in PACKED and len(shape) == 2 and name.endswith(".weight"):
        stem, parts = name.removesuffix("weight"), PACKED[tensor.dtype](data)
        return {f"{stem}{part}": mx.array(array.reshape(shape[0], -1)) for part, array in parts.items()}
    return {name: mx.array(_widened(tensor, data).reshape(shape))}


def _widened(tensor: PlacedTensor, data: Bytes) -> NDArray[np.float16]:
    """Weights of a block type in float16, shape (weights,)."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 (slow to import)
    from gguf.quants import dequantize  # noqa: PLC0415 (likewise)

    kind = GGMLQuantizationType[tensor.dtype]
    weights, size = GGML_QUANT_SIZES[kind]
    whole, blocks = np.empty(tensor.element_count, np.float16), data.reshape(-1, size)
    step = max(1, SLICE_CELLS // weights)
    with np.errstate(all="ignore"):  # scales may be anything in a damaged file
        for first in range(0, len(blocks), step):
            decoded = dequantize(blocks[first : first + step], kind)
            whole[first * weights : first * weights + decoded.size] = decoded.reshape(-1)
    return whole


def _half(blocks: Bytes, first: int) -> NDArray[np.float16]:
    return np.ascontiguousarray(blocks[:, first : first + 2]).view(np.float16)[:, 0]


def _nibbles(packed: Bytes) -> NDArray[np.uint32]:
    """16 bytes of a block, whose halves are the weights i and i + 16, as four words of eight weights in order."""
    ordered = np.concatenate([packed & 15, packed >> 4], axis=1)
    return np.ascontiguousarray(ordered[:, 0::2] | ordered[:, 1::2] << 4).view(np.uint32)


def _q4_0(data: Bytes) -> dict[str, NDArray[Any]]:
    blocks = data.reshape(-1, 18)
    scales = _half(blocks, 0)
    with np.errstate(all="ignore"):
        return {"weight": _nibbles(blocks[:, 2:]), "scales": scales, "biases": scales * np.float16(-8)}


def _q4_1(data: Bytes) -> dict[str, NDArray[Any]]:
    blocks = data.reshape(-1, 20)
    return {"weight": _nibbles(blocks[:, 4:]), "scales": _half(blocks, 0), "biases": _half(blocks, 2)}


def _q8_0(data: Bytes) -> dict[str, NDArray[Any]]:
    blocks = data.reshape(-1, 34)
    scales, weights = _half(blocks, 0), np.ascontiguousarray(blocks[:, 2:] ^ 0x80).view(np.uint32)
    with np.errstate(all="ignore"):
        return {"weight": weights, "scales": scales, "biases": scales * np.float16(-128)}


PACKED: dict[str, Decoder] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}
"""Types that MLX has packed layers for."""
