"""The one way to open a checkpoint, whatever its form."""

from __future__ import annotations

from pathlib import Path

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.gguf_file import OpenedGguf
from eredu.checkpoints.gguf_header import read_gguf_header
from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.safetensors_header import PICKLE_SUFFIXES
from eredu.contract.errors import CheckpointError

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
    if path.suffix in PICKLE_SUFFIXES:
        raise CheckpointError(
            f"{path} is a pickle file, which can run code and is never opened; expected a directory with SafeTensors "
            "weights, or a GGUF file"
        )
    if path.suffix == ".safetensors":
        raise CheckpointError(f"{path} holds weights alone; give the directory with its config.json: {path.parent}")
    return OpenedGguf(path, read_gguf_header(path))


def open_named(name: str | Path) -> OpenedCheckpoint:
    """Open a checkpoint by one of eredu's own names, or by path. Raises `CheckpointError` for what is neither."""
    return open_checkpoint(resolve_checkpoint(str(name)))
