"""Inspection of a checkpoint without loading it: headers and metadata only, checked against the files."""

from __future__ import annotations

from pathlib import Path

from eredu.checkpoints.opening import open_checkpoint
from eredu.checkpoints.report import CheckpointReport


def inspect_checkpoint(path: Path) -> CheckpointReport:
    """Report on a Hugging Face directory or a GGUF file.

    Raises `CheckpointError` for anything missing, cut short, damaged, contradictory, pickled or of unknown family.
    """
    return open_checkpoint(path).report()
