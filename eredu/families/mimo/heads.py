"""Heads of MiMo-7B: one decoder layer of the target's class each, behind a fusion that has the hidden state first.

Source: the release's tensor names, and vLLM's and Megatron's readings of them, which agree on the order of the halves.
"""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import Wiring
from eredu.families.extra_layers import APART
from eredu.families.filling import fill_module
from eredu.families.head_tensors import HeadTensors, take_module
from eredu.families.mimo.facts import FUSION, OUTPUT_NORM
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import LayerStage, Stage
from eredu.families.target_parts import TargetParts

WIRING = Wiring(hidden_after_norm=True, hidden_first=True, chain_after_norm=True)


class MimoStage(LayerStage):
    """One head.

    Args:
        layer: A decoder layer of the target's class.
        hidden_size: Width of the target's residual.
        eps: Of the norms.
        number: Its published number.
    """

    fusion = FUSION
    output_norm = OUTPUT_NORM

    def __init__(self, layer: nn.Module, hidden_size: int, eps: float, number: int) -> None:
        super().__init__(layer, hidden_size, eps)
        self._prefix = f"model.mtp_layers.{number}."

    def stored_name(self, parameter: str) -> str:
        """As it was published."""
        return self._prefix + parameter.removeprefix("layer.")


def load_heads(tensors: HeadTensors, parts: TargetParts) -> PredictionHeads:
    """Build all heads of a checkpoint from its published or converted tensors.

    Raises `CheckpointError` naming tensors that are missing, left over, misshapen or dead.
    """
    arrays = dict(tensors.renamed(lambda name: name.removeprefix(APART)).arrays)
    stages = [_load_stage(take_module(arrays, f"mtp_layers.{n}."), tensors, parts, n) for n in range(tensors.count)]
    return PredictionHeads.of(stages, parts, tensors, wiring=WIRING)


def _load_stage(arrays: dict[str, mx.array], tensors: HeadTensors, parts: TargetParts, number: int) -> Stage:
    args = parts.args
    module = MimoStage(type(parts.layers[-1])(args), args.hidden_size, args.rms_norm_eps, number)
    of_stage = (*FUSION, OUTPUT_NORM)
    named = {name if name.startswith(of_stage) else f"layer.{name}": array for name, array in arrays.items()}
    fill_module(module, named, tensors.directory)
    return Stage(module, parts.embed, parts.project)
