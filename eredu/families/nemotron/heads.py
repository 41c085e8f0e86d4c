"""Heads of Nemotron-H: steps of a few blocks each, in a pattern of their own, of the target's block class.

A step fuses embedding and hidden state in front of its first block and norms behind its last one. Only attention
blocks keep a cache. The layer pattern of a head has no recurrent block, so its caches roll back by length.
Source: the published checkpoints' configuration and names, and NVIDIA's Nemotron 3 reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from eredu.families.filling import fill_module
from eredu.families.head_tensors import HeadTensors, convert_blocks
from eredu.families.mlx_lm_patches import patch_layers
from eredu.families.nemotron.facts import ATTENTION, head_pattern
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import Stage, StageModule
from eredu.families.target_parts import TargetParts
from eredu.mlx.caches.composite import RollbackList
from eredu.mlx.caches.full import RollbackCache


class NemotronStage(StageModule):
    """One step.

    Args:
        blocks: Its blocks, of the target's class.
        hidden_size: Width of the target's residual.
        eps: Of the norms.
        start: Published number of its first block.
    """

    output_norm = "final_layernorm"

    def __init__(self, blocks: Sequence[nn.Module], hidden_size: int, eps: float, start: int) -> None:
        super().__init__(hidden_size, eps)
        self.blocks = list(blocks)
        self._start = start

    def stored_name(self, parameter: str) -> str:
        """As `_parameter` reads it, behind the number of its block; the final norm's is the last."""
        if parameter.startswith("blocks."):
            _, number, inner = parameter.split(".", 2)
            return f"mtp.layers.{self._start + int(number)}.{inner}"
        last = self._start + len(self.blocks) - 1
        return f"mtp.layers.{last if parameter.startswith(self.output_norm) else self._start}.{parameter}"

    def new_cache(self, bucket: int | None = None) -> Any:
        """Keys and values of each attention block."""
        return RollbackList(*(RollbackCache(bucket) for block in self.blocks if block.block_type == ATTENTION))

    def run_blocks(self, x: mx.array, cache: Any, stage: int) -> mx.array:  # noqa: ARG002 (a module a stage)
        """The blocks in order, each added to the residual."""
        own = iter(cache.caches)
        for block in self.blocks:
            held = next(own) if block.block_type == ATTENTION else None
            mask = None if held is None else held.make_mask(x.shape[1])
            x = block(x, mask=mask, cache=held)
        return x


def load_heads(tensors: HeadTensors, parts: TargetParts) -> PredictionHeads:
    """Build all steps of a checkpoint from its published or converted tensors.

    Raises `CheckpointError` naming tensors that are missing, left over, misshapen or dead, `CapabilityError` for a
    pattern with recurrent blocks.
    """
    pattern = head_pattern(tensors.config)
    count = tensors.count
    stages = [_load_stage(tensors, parts, pattern, step * len(pattern)) for step in range(count)]
    return PredictionHeads.of(stages, parts, tensors)


def _load_stage(tensors: HeadTensors, parts: TargetParts, pattern: str, start: int) -> Stage:
    args = parts.args
    prefixes = [f"mtp.layers.{start + number}." for number in range(len(pattern))]
    converted = convert_blocks(tensors, parts, prefixes, layers="backbone.layers.")
    arrays = {_parameter(number, name): a for number, block in enumerate(converted) for name, a in block.items()}
    blocks = [type(parts.layers[0])(args, letter) for letter in pattern]
    module = NemotronStage(blocks, args.hidden_size, args.layer_norm_epsilon, start)
    fill_module(module, arrays, tensors.directory)
    patch_layers(module)
    return Stage(module, parts.embed, parts.project)


def _parameter(block: int, name: str) -> str:
    """Name in `NemotronStage` of a tensor of one of its blocks; fusion and final norm belong to the step."""
    of_step = (*NemotronStage.fusion, NemotronStage.output_norm)
    return name if name.startswith(of_step) else f"blocks.{block}.{name}"
