"""Inspection of a checkpoint without loading it: headers and metadata only, checked against the files."""

from __future__ import annotations

from pathlib import Path

from eredu.checkpoints.directory import inspect_directory
from eredu.checkpoints.gguf_file import inspect_gguf
from eredu.checkpoints.report import CheckpointReport
from eredu.checkpoints.safetensors_header import PICKLE_SUFFIXES
from eredu.contract.errors import CheckpointError


def inspect_checkpoint(path: Path) -> CheckpointReport:
    """Report on a Hugging Face directory or a GGUF file.

    Raises `CheckpointError` for anything missing, cut short, damaged, contradictory, pickled or of unknown family.
    """
    if path.is_dir():
        return inspect_directory(path)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; expected a Hugging Face directory or a GGUF file")
    if path.suffix in PICKLE_SUFFIXES:
        raise CheckpointError(
            f"{path} is a pickle file, which can run code and is never opened; expected a directory with SafeTensors "
            "weights, or a GGUF file"
        )
    if path.suffix == ".safetensors":
        raise CheckpointError(f"{path} holds weights alone; give the directory with its config.json: {path.parent}")
    return inspect_gguf(path)
