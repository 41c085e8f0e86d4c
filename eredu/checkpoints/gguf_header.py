"""The header of one GGUF file: metadata and the table of tensors, read without touching a weight.

The layout is that of the GGUF specification, versions 2 and 3. Every length is checked before it is believed: see
`gguf_cursor`.
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from eredu.checkpoints.gguf_cursor import GgufCursor
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class PlacedTensor(StoredTensor):
    """One tensor of a GGUF file, and where its bytes lie.

    Attributes:
        offset: First byte in its file.
    """

    offset: int


@dataclass(frozen=True)
class GgufHeader:
    """Metadata and tensors of one file, or of all files of a set, which lie in one folder.

    Attributes:
        path: The file, or the set's first.
        metadata: Values by key; arrays are lists.
        tensors: The tensors in the order of the files.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: tuple[PlacedTensor, ...]

    @property
    def architecture(self) -> str:
        """`general.architecture`. Raises `CheckpointError` where it is missing."""
        value = self.metadata.get("general.architecture")
        if not isinstance(value, str):
            raise CheckpointError(
                f"{self.path} does not name its general.architecture; expected a language model with its metadata"
            )
        return value

    def require_model(self) -> None:
        """Raise `CheckpointError` where the file says that it is something beside a model, or holds no weights."""
        kind = self.metadata.get("general.type", "model")
        if kind != "model":
            raise CheckpointError(
                f"{self.path} says that it is no model: its general.type is {kind!r} (a LoRA adapter, a projector of "
                "images, statistics of a quantiser); give the model's own file"
            )
        if not self.tensors:
            raise CheckpointError(
                f"{self.path} holds metadata and no weights, as files of a vocabulary alone do; give the model's file"
            )

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the tensors, each once, and the first in any case."""
        return tuple(
            dict.fromkeys([self.path, *(self.path.with_name(tensor.file) for tensor in self.tensors)]),
        )


def is_gguf(path: Path) -> bool:
    """Whether a file begins as a GGUF does, whatever its name. Raises `CheckpointError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise CheckpointError(f"{path} could not be opened: {error}") from error


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header of one file and check that the file is long enough for every tensor it lists.

    Raises `CheckpointError` for a file that is missing, is no GGUF, is of another version, is cut short, contradicts
    itself, or announces more than any model has.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; expected a GGUF checkpoint")
    try:
        size = path.stat().st_size
        if size < 24:
            raise CheckpointError(f"{path} has {size} bytes; a GGUF header alone has 24: fetch the file again")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).read()
    except OSError as error:
        raise CheckpointError(f"{path} could not be opened: {error}") from error


class _Reader(GgufCursor):
    """The cursor of one header, which knows its parts."""

    def read(self) -> GgufHeader:
        magic = self.data[:4]
        if magic != MAGIC:
            raise CheckpointError(
                f"{self.path} begins with {magic!r}; a GGUF begins with {MAGIC!r}: it is another file"
            )
        self.at = 4
        version = self.number("<I")
        if version not in VERSIONS:
            raise CheckpointError(
                f"{self.path} is GGUF version {version}; eredu reads the little-endian versions 2 and 3: convert it "
                "again with a current converter"
            )
        tensor_count, value_count = self.number("<Q"), self.number("<Q")
        entries = [self.entry() for _ in range(self.count(value_count, 12, "metadata values"))]
        infos = [self.tensor_info() for _ in range(self.count(tensor_count, 24, "tensors"))]
        metadata = dict(entries)
        if len(metadata) != len(entries) or len({name for name, *_ in infos}) != len(infos):
            self.damaged("a key or a tensor name occurs twice")
        return GgufHeader(self.path, metadata, self.place(infos, self.alignment(metadata)))

    def entry(self) -> tuple[str, Any]:
        key = self.string()
        return key, self.value(self.number("<I"), key)

    def tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.string()
        dimensions = self.number("<I")
        if dimensions > MAX_DIMENSIONS:
            self.damaged(f"tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dimensions))
        return name, shape[::-1], self.number("<I"), self.number("<Q")

    def alignment(self, metadata: dict[str, Any]) -> int:
        value = metadata.get("general.alignment", 32)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0 or value % 8:
            self.damaged(f"general.alignment is {value!r}")
        return value

    def place(self, infos: list[tuple[str, tuple[int, ...], int, int]], alignment: int) -> tuple[PlacedTensor, ...]:
        start = -(-self.at // alignment) * alignment
        placed = []
        for name, shape, kind, offset in infos:
            type_name, size_bytes = self.extent(name, shape, kind)
            first = start + offset
            if first + size_bytes > self.size:
                raise CheckpointError(
                    f"{self.path} is cut short: tensor {name!r} ends at byte {first + size_bytes}, the file "
                    f"has {self.size}: fetch it again"
                )
            if offset % alignment:
                self.damaged(f"tensor {name!r} begins at byte {offset} of the data, no multiple of {alignment}")
            placed.append(PlacedTensor(name, shape, type_name, size_bytes, self.path.name, first))
        self.require_apart(placed)
        return tuple(placed)

    def require_apart(self, placed: list[PlacedTensor]) -> None:
        filled = sorted((tensor for tensor in placed if tensor.size_bytes), key=lambda tensor: tensor.offset)
        for one, other in pairwise(filled):
            if one.offset + one.size_bytes > other.offset:
                self.damaged(f"tensors {one.name!r} and {other.name!r} overlap at byte {other.offset}")

    def extent(self, name: str, shape: tuple[int, ...], kind: int) -> tuple[str, int]:
        """Type name and bytes of a tensor: rows are stored in whole blocks of the type."""
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 (slow to import)

        try:
            known = GGMLQuantizationType(kind)
            block, block_bytes = GGML_QUANT_SIZES[known]
        except (KeyError, ValueError):
            raise CheckpointError(
                f"{self.path} stores tensor {name!r} in the GGML type {kind}, which eredu does not know: it is of a "
                "newer format, or damaged. Convert or fetch it again"
            ) from None
        row = shape[-1] if shape else 1
        if row % block:
            self.damaged(f"tensor {name!r} has rows of {row} weights, which blocks of {block} do not divide")
        return str(known.name), math.prod(shape) // block * block_bytes
