"""Heads of Step 3.5: one dense decoder layer of the target's class each, with an output projection of its own.

A head's kind of attention, rotary positions and clamping are those that the config lists under its layer's number.
Norms are stored as offsets from one. The embedding is the first half of the fused vector, a head reads the hidden state
before the final norm, and so does the next head. Source: the release's tensor names, and NVIDIA's training code (NeMo
AutoModel, `step3p5`).
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import Wiring
from eredu.families.extra_layers import APART, KeptCopy
from eredu.families.filling import fill_module
from eredu.families.head_tensors import HeadTensors, take_module
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import LayerStage, Stage
from eredu.families.step.facts import BY_HEAD, SHARED_HEAD, require_lists
from eredu.families.target_parts import TargetParts
from eredu.mlx.caches.whole_window import WholeWindowCache

WIRING = Wiring()
OUTPUT = f"{SHARED_HEAD}output."
NORM = f"{SHARED_HEAD}norm."


class StepStage(LayerStage):
    """One head.

    Args:
        layer: A decoder layer of the target's class.
        args: mlx-lm's description of the decoder.
        prefix: In front of its published names.
    """

    def __init__(self, layer: nn.Module, args: Any, prefix: str) -> None:
        super().__init__(layer, args.hidden_size, args.rms_norm_eps)
        self._window = args.sliding_window
        self._prefix = prefix

    def stored_name(self, parameter: str) -> str:
        """As `_parameter` reads it, behind the layer's number."""
        part, _, inner = parameter.partition(".")
        own = {"layer": "", self.output_norm: NORM}.get(part, f"{part}.")
        return f"{self._prefix}{own}{inner}".removesuffix(".")

    def new_cache(self, bucket: int | None = None) -> Any:
        """Keys and values, those behind a window hidden where the layer slides."""
        return WholeWindowCache(self._window, bucket) if self.layer.is_sliding else super().new_cache(bucket)


def load_heads(tensors: HeadTensors, parts: TargetParts) -> PredictionHeads:
    """Build all heads of a checkpoint from its published or converted tensors.

    Raises `CheckpointError` for a config whose lists do not reach their layers, and naming tensors that are missing,
    left over, misshapen or dead.
    """
    depth = tensors.config.layers
    require_lists(tensors.config, depth + tensors.count, BY_HEAD, instead=", or decode plainly (--no-mtp)")
    layers = tensors.shifted().renamed(lambda name: name.removeprefix(APART))
    arrays = dict(layers.arrays)
    stages = [_load_stage(arrays, tensors, parts, depth + number) for number in range(tensors.count)]
    return PredictionHeads.of(stages, parts, tensors, wiring=WIRING)


def _load_stage(arrays: dict[str, mx.array], tensors: HeadTensors, parts: TargetParts, number: int) -> Stage:
    args, prefix = parts.args, f"model.layers.{number}."
    own = take_module(arrays, f"layers.{number}.")
    output = take_module(own, OUTPUT)
    module = StepStage(type(parts.layers[0])(args, number), args, prefix)
    fill_module(module, {_parameter(name): array for name, array in own.items()}, tensors.directory)
    project = KeptCopy(nn.Linear(args.hidden_size, args.vocab_size, bias=False), f"{prefix}{OUTPUT}")
    fill_module(project, {f"inner.{name}": array for name, array in output.items()}, tensors.directory)
    return Stage(module, parts.embed, project, (project,))


def _parameter(name: str) -> str:
    """Name in `StepStage` of a tensor of the head."""
    if name.startswith(StepStage.fusion):
        return name
    return f"{StepStage.output_norm}.{name.removeprefix(NORM)}" if name.startswith(NORM) else f"layer.{name}"
