"""Heads of ERNIE 4.5: one dense decoder layer each, with the target's final norm behind it.

Source: the publisher's training code (ERNIE repository, `Ernie4_5_Model`): the embedding is the first half of the fused
vector, a head reads the hidden state before the final norm, and so does the next head.
"""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import Wiring
from eredu.families.ernie.facts import BLOCK, FUSION
from eredu.families.extra_layers import APART
from eredu.families.filling import fill_module, require_nothing_left
from eredu.families.head_tensors import HeadTensors, take_module
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import LayerStage, Stage
from eredu.families.target_parts import TargetParts

WIRING = Wiring()


class ErnieStage(LayerStage):
    """One head.

    Args:
        layer: A decoder layer of the target's class.
        norm: The target's final norm.
        hidden_size: Width of the target's residual.
        eps: Of the norms.
        number: Its published number.
    """

    fusion = FUSION

    def __init__(self, layer: nn.Module, norm: nn.Module, hidden_size: int, eps: float, number: int) -> None:
        super().__init__(layer, hidden_size, eps, norm)
        self._number = number

    def stored_name(self, parameter: str) -> str:
        """The number goes behind the part's name."""
        part, _, inner = parameter.partition(".")
        return f"model.{BLOCK if part == 'layer' else part}.{self._number}.{inner}".removesuffix(".")


def load_heads(tensors: HeadTensors, parts: TargetParts) -> PredictionHeads:
    """Build all heads of a checkpoint from its published or converted tensors.

    Raises `CheckpointError` naming tensors that are missing, left over, misshapen or dead.
    """
    arrays = dict(tensors.renamed(lambda name: name.removeprefix(APART)).arrays)
    stages = [_load_stage(arrays, tensors, parts, number) for number in range(tensors.count)]
    require_nothing_left(arrays, tensors.directory)
    return PredictionHeads.of(stages, parts, tensors, wiring=WIRING)


def _load_stage(arrays: dict[str, mx.array], tensors: HeadTensors, parts: TargetParts, number: int) -> Stage:
    args = parts.args
    layer = type(parts.layers[0])(args, number)
    module = ErnieStage(layer, parts.norm, args.hidden_size, args.rms_norm_eps, number)
    named = {
        f"{'layer' if part == BLOCK else part}.{name}": array
        for part in (*FUSION, BLOCK)
        for name, array in take_module(arrays, f"{part}.{number}.").items()
    }
    fill_module(module, named, tensors.directory)
    return Stage(module, parts.embed, parts.project)
