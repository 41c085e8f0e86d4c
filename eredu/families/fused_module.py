"""Weights of heads that share all but their decoder layer: Qwen's, and those made for targets without heads."""

from __future__ import annotations

import copy
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.heads import stated_depth
from eredu.families.filling import fill_module, parameters_of
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import Stage, StageModule
from eredu.families.target_parts import TargetParts

PREFIX = "mtp."
"""In front of the published names."""


class FusedModule(StageModule):
    """The weights, under their published names: a layer a stage, the rest shared."""

    fusion = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc")

    def __init__(self, layers: list[nn.Module], hidden_size: int, eps: float) -> None:
        super().__init__(hidden_size, eps)
        self.layers = layers

    def run_blocks(self, x: mx.array, cache: Any, stage: int) -> mx.array:
        """The stage's decoder layer."""
        return cast(mx.array, self.layers[stage](x, cache.make_mask(x.shape[1]), cache))

    def stored_name(self, parameter: str) -> str:
        """The published prefix in front."""
        return f"{PREFIX}{parameter}"

    def stages(self, target: TargetParts, norms_higher: float = 0.0) -> tuple[Stage, ...]:
        """A stage a layer, of a copy with norms that are higher by a number, unless that is 0."""
        module = self if norms_higher == 0 else _with_norms(self, norms_higher)
        return tuple(Stage(module, target.embed, target.project) for _ in module.layers)


def load_fused(tensors: HeadTensors, target: TargetParts, module: FusedModule) -> PredictionHeads:
    """Heads of a module, filled with tensors named as its parameters are. Raises as `fill_module` does.

    They may be iterated to the depth that their config.json states.
    """
    fill_module(module, tensors.arrays, tensors.directory)
    return PredictionHeads.of(module.stages(target), target, tensors, depth=stated_depth(tensors.config))


def _with_norms(module: FusedModule, offset: float) -> FusedModule:
    """A copy that shares all weights but those of its norms, which are `offset` higher."""
    copied = copy.deepcopy(module)
    weights = parameters_of(module)
    norms = [(name, array + offset) for name, array in weights.items() if "norm" in name and array.ndim == 1]
    copied.load_weights([*(weights | dict(norms)).items()])
    return copied
