"""The header of one SafeTensors file, checked against the file and read without touching a weight.

The layout is the SafeTensors format's: eight bytes of header length, a JSON object, then the tensors back to back
without holes.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError
from eredu.files.json_reading import parse_json

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
MAX_MARKS = 1 << 22
"""Commas, colons and brackets of a header: a tensor takes about ten, and no file has 400,000 tensors. Memory and time
go with them, and 100 MB can hold a hundred million."""
MAX_DIMENSIONS = 64
MOST_QUOTED = 200
"""Characters of a name or an entry in a message."""
MAX_SIZE = 1 << 31
"""Past any dimension that MLX holds; it would wrap round."""
MAX_OFFSET = 1 << 63

BITS_OF_DTYPE = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class SafetensorsHeader:
    """The header of one file.

    Attributes:
        path: The file.
        tensors: Its tensors, in the order of their data.
        metadata: What its writer noted, as it stands there; None where it noted nothing.
        file: Its name as its tensors give it: from the checkpoint's folder.
    """

    path: Path
    tensors: tuple[StoredTensor, ...]
    metadata: Any = None
    file: str = ""

    @property
    def format(self) -> str | None:
        """`format` of the metadata, which tells makers from converters. Raises `CheckpointError` for no object."""
        if self.metadata is None:
            return None
        if not isinstance(self.metadata, dict):
            raise CheckpointError(
                f"the metadata of {self.path} are a JSON {type(self.metadata).__name__}; expected an object"
            )
        found = self.metadata.get("format")
        return None if found is None else str(found)


def read_safetensors_header(path: Path) -> SafetensorsHeader:
    """The header of one file.

    Raises `CheckpointError` for a file that is missing, cut short, or whose header contradicts itself.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; expected a SafeTensors file")
    try:
        header, data_bytes = _read_header(path)
    except OSError as error:
        raise CheckpointError(f"{path} could not be opened: {error}") from error
    metadata = header.pop("__metadata__", None)
    tensors = [_tensor(path, name, entry) for name, entry in header.items()]
    return SafetensorsHeader(path, _back_to_back(path, tensors, data_bytes), metadata, path.name)


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file, and the bytes of data behind it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise CheckpointError(f"{path} has {size} bytes; a SafeTensors file has at least 8: fetch it again")
        (length,) = struct.unpack("<Q", prefix)
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise CheckpointError(
                f"{path} announces a header of {length} bytes and has {size} bytes in all (the format allows "
                f"{MAX_HEADER_BYTES}): it is cut short, or no SafeTensors file. Fetch it again"
            )
        return _parse(path, file.read(length)), size - 8 - length


def _parse(path: Path, raw: bytes) -> dict[str, Any]:
    name = f"the header of {path}"
    header = parse_json(raw, name=name, error=CheckpointError, unique=True, max_marks=MAX_MARKS)
    if not isinstance(header, dict):
        raise CheckpointError(f"the header of {path} is a JSON {type(header).__name__}; expected an object")
    return header


def _tensor(path: Path, name: str, entry: Any) -> tuple[int, StoredTensor]:
    """First byte and description of one tensor."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(end)]} if (
            dtype in BITS_OF_DTYPE
            and _are_sizes(shape, MAX_SIZE)
            and _are_sizes([start, end], MAX_OFFSET)
            and start <= end
        ):
            bits = math.prod(shape) * BITS_OF_DTYPE[dtype]
            if bits == 8 * (end - start):
                return start, StoredTensor(name, tuple(shape), dtype, end - start, path.name)
    raise CheckpointError(
        f"the header of {path} describes tensor {name[:MOST_QUOTED]!r} as {_quoted(entry)}; expected a known dtype, a "
        "shape, and data_offsets that span just as many bytes: fetch the file again"
    )


def _are_sizes(numbers: list[Any], below: int) -> bool:
    """Whether these are few and whole numbers from 0 on; JSON's true is none."""
    return len(numbers) <= MAX_DIMENSIONS and all(type(n) is int and 0 <= n < below for n in numbers)


def _quoted(entry: Any) -> str:
    """An entry as JSON, the start of a long one: numbers of thousands of digits have no other end."""
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=True).iterencode(entry):
        text += piece[:MOST_QUOTED]
        if len(text) > MOST_QUOTED:
            return f"{text[:MOST_QUOTED]} ..."
    return text


def _back_to_back(path: Path, tensors: list[tuple[int, StoredTensor]], data_bytes: int) -> tuple[StoredTensor, ...]:
    """The tensors in order, if they fill the data without holes, as the format demands."""
    tensors.sort(key=lambda placed: (placed[0], placed[1].size_bytes))
    at = 0
    for start, tensor in tensors:
        if start != at:
            raise CheckpointError(f"tensor {tensor.name!r} of {path} begins at byte {start} of the data; expected {at}")
        at += tensor.size_bytes
    if at != data_bytes:
        problem = "is cut short" if data_bytes < at else "goes on behind its last tensor"
        raise CheckpointError(
            f"{path} {problem}: its header describes {at} bytes of tensors, and {data_bytes} follow it. Fetch it again"
        )
    return tuple(tensor for _, tensor in tensors)
