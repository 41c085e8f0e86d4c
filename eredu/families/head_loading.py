"""The registry of families with heads: one entry a family, from the tensors of its heads to heads that run.

To add a family: say in `eredu.checkpoints.heads` what its config claims (`CLAIM_RULES`: how many heads, the prefixes
and the names of their tensors) and that eredu runs it (`RUNNABLE`); write `families/<family>_head.py` with a loader
that renames the tensors to the parameters of a module of its own, fills it (`filling.fill_module`), and returns
`PredictionHeads`; enter the loader here under every `model_type` it serves. Layers of the target's own kind are built
with `type(parts.layers[i])` from `parts.args`, so that no family imports mlx-lm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from eredu.checkpoints.heads import DEEPSEEK, QWEN
from eredu.contract.errors import CapabilityError
from eredu.families.deepseek.heads import load_deepseek_heads
from eredu.families.head_tensors import HeadTensors, read_head_tensors
from eredu.families.llama.heads import load_llama_head
from eredu.families.nemotron.heads import load_nemotron_heads
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.qwen.heads import load_qwen_heads
from eredu.families.target_parts import TargetParts
from eredu.mlx.adapter import LanguageModel, widened

HeadLoader = Callable[[HeadTensors, TargetParts], PredictionHeads]

LOADERS: Mapping[str, HeadLoader] = {
    **dict.fromkeys(QWEN, load_qwen_heads),
    **dict.fromkeys((f"{family}_mtp" for family in QWEN), load_qwen_heads),
    **dict.fromkeys(DEEPSEEK, load_deepseek_heads),
    **dict.fromkeys((f"{family}_mtp" for family in DEEPSEEK), load_deepseek_heads),
    **dict.fromkeys(("nemotron_h", "nemotron_h_mtp"), load_nemotron_heads),
    "llama_mtp": load_llama_head,
}
"""Loaders by `model_type`: of the checkpoint whose heads they are, or of a directory of heads (`qwen3_5_mtp`)."""


def load_heads(directory: Path, target: LanguageModel, *, wide: bool = False) -> PredictionHeads:
    """Load the heads in a directory for a target in memory: its own directory, or one of heads alone.

    `wide` brings vectors to float32 before anything is added to them, as it does in `load_directory`.

    Raises `CheckpointError` for damaged, incomplete or dead heads, `CapabilityError` for a family that has no loader.
    """
    tensors = read_head_tensors(directory)
    if wide:
        tensors = replace(tensors, arrays=widened(tensors.arrays))
    family = tensors.config.model_type
    loader = LOADERS.get(family)
    if loader is None:
        raise CapabilityError(
            f"{directory} holds heads of {family}, which eredu does not run; it runs those of "
            f"{', '.join(sorted(LOADERS))}. Decode plainly (--no-mtp), or with an assistant"
        )
    return loader(tensors, TargetParts.of(target))
