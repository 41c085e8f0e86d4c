"""Heads that run, from the tensors of a directory: the family's `heads.py` has a function `load_heads` for it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.opening import OpenedCheckpoint
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.families.head_tensors import read_head_tensors
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.registry import RUN_HEADS, parts_named
from eredu.families.target_parts import TargetParts
from eredu.mlx.adapter import WIDE, LanguageModel, widened


def load_heads(opened: OpenedCheckpoint, target: LanguageModel, *, dtype: str | None = None) -> PredictionHeads:
    """Load the heads in a directory for a target in memory: its own directory, or one of heads alone.

    `dtype` is the type that floats will be cast to, if they will be, as it is of `load_directory`.

    Raises `CheckpointError` for damaged, incomplete or dead heads, `CapabilityError` for a family whose heads eredu
    does not run.
    """
    if not isinstance(opened, OpenedDirectory):
        raise CheckpointError(f"{opened.path} is no directory; prediction heads are read from SafeTensors alone")
    tensors = read_head_tensors(opened, dtype=dtype)
    if dtype == WIDE:
        tensors = replace(tensors, arrays=widened(tensors.arrays))
    family = opened.family
    if family is None or family.heads is None or not family.heads.runs:
        raise CapabilityError(
            f"{opened.path} holds heads of {opened.architecture}, which eredu does not run; it runs those of "
            f"{', '.join(RUN_HEADS)}. Decode plainly (--no-mtp), or with an assistant"
        )
    loader = parts_named("heads")[family.folder].load_heads
    return cast(PredictionHeads, loader(tensors, TargetParts.of(target)))
