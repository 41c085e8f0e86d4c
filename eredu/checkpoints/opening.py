"""The one way to open a checkpoint, whatever its form."""

from __future__ import annotations

from pathlib import Path

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.gguf_file import OpenedGguf
from eredu.checkpoints.gguf_header import MAGIC, is_gguf
from eredu.checkpoints.gguf_set import read_gguf
from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.safetensors_header import PICKLE_SUFFIXES
from eredu.contract.errors import CheckpointError

PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""First bytes of pickles, bare or in the archives that torch writes."""
OpenedCheckpoint = OpenedDirectory | OpenedGguf
"""What is handed down to inspection, loading, heads, tokenizer and matching, so that all decide from the same facts."""


def open_checkpoint(path: Path) -> OpenedCheckpoint:
    """Open a Hugging Face directory or a GGUF file. What a directory holds is read when it is first asked for.

    Nothing loads a weight: `report()` inspects headers and metadata, `tokenizer` reads the tokenizer alone.

    Raises `CheckpointError` for a path that does not exist, or is neither.
    """
    if path.is_dir():
        return OpenedDirectory(path)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; expected a Hugging Face directory or a GGUF file")
    if is_gguf(path):
        return OpenedGguf(path, read_gguf(path))
    raise CheckpointError(f"{path} {_what_it_is(path)}; expected a directory with SafeTensors weights, or a GGUF file")


def _what_it_is(path: Path) -> str:
    """What a file that is no GGUF is, by its first bytes and its name, in the words of an error."""
    with path.open("rb") as file:
        start = file.read(9)
    if path.suffix in PICKLE_SUFFIXES or start.startswith(PICKLE_STARTS):
        return "is a pickle file, which can run code and is never opened"
    if path.suffix == ".safetensors" or start[8:] == b"{":
        return f"holds weights alone, without their config.json; give the directory that has both: {path.parent}"
    return f"begins with {start[:4]!r}, and a GGUF with {MAGIC!r}: it is another file, or damaged"


def open_named(name: str | Path) -> OpenedCheckpoint:
    """Open a checkpoint by one of eredu's own names, or by path. Raises `CheckpointError` for what is neither."""
    return open_checkpoint(resolve_checkpoint(str(name)))
