"""The heads of Qwen3-Next and Qwen3.5, dense and with experts: fused heads of the target's own kind of layer.

The layer is a full-attention decoder layer of the target's class, gated attention and all. Norms are zero-centred in
published files. Experts come packed, one tensor each, or stacked as mlx-lm stacks them. Published checkpoints have one
head; of several, each makes the proposal of its number, as vLLM runs them. A config.json may state `wiring` and
`max_proposals` as that of a llama head does; published ones state neither, so a probe decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from eredu.contract.errors import CheckpointError
from eredu.families.fused_module import PREFIX, FusedModule, load_fused
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.target_parts import TargetParts

_LAYER = re.compile(r"^layers\.(\d+)\.")
_EXPERT = re.compile(r"^(.*\.mlp)\.experts\.(\d+)\.(gate_proj|up_proj|down_proj)\.(weight|scales|biases)$")
_PACKED = re.compile(r"^(.*\.mlp)\.experts\.(gate_up_proj|down_proj)(?:\.weight)?$")


def load_heads(tensors: HeadTensors, target: TargetParts) -> PredictionHeads:
    """Heads of Qwen3-Next and Qwen3.5 on a loaded target. Raises `CheckpointError` as `fill_module` does."""
    named = tensors.shifted().renamed(lambda name: name.removeprefix(PREFIX))
    arrays = stack_experts(named.arrays)
    layers = [
        _new_layer(target, sparse=f"layers.{number}.mlp.gate.weight" in arrays) for number in range(_layer_count(named))
    ]
    module = FusedModule(layers, target.args.hidden_size, target.args.rms_norm_eps)
    heads = load_fused(replace(named, arrays=arrays), target, module)
    return replace(heads, offset_norms=partial(module.stages, target))


def stack_experts(arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Tensors with the experts of each layer stacked under mlx-lm's names; what is stacked already stays as it is."""
    stacked: dict[str, mx.array] = {}
    single: dict[tuple[str, str, str], dict[int, mx.array]] = {}
    for name, array in arrays.items():
        if (expert := _EXPERT.match(name)) is not None:
            mlp, number, projection, part = expert.groups()
            single.setdefault((mlp, projection, part), {})[int(number)] = array
        elif (packed := _PACKED.match(name)) is not None and packed[2] == "gate_up_proj":
            gate, up = mx.split(array, 2, axis=-2)
            stacked[f"{packed[1]}.switch_mlp.gate_proj.weight"] = gate
            stacked[f"{packed[1]}.switch_mlp.up_proj.weight"] = up
        elif packed is not None:
            stacked[f"{packed[1]}.switch_mlp.down_proj.weight"] = array
        else:
            stacked[name] = array
    for (mlp, projection, part), experts in single.items():
        numbers = sorted(experts)
        if numbers != list(range(len(numbers))):
            missing = min(set(range(numbers[-1] + 1)) - set(numbers))
            raise CheckpointError(
                f"the prediction head lacks {mlp}.experts.{missing}.{projection}.{part}; fetch it again"
            )
        stacked[f"{mlp}.switch_mlp.{projection}.{part}"] = mx.stack([experts[number] for number in numbers])
    return stacked


def _layer_count(tensors: HeadTensors) -> int:
    numbers = {int(found[1]) for name in tensors.arrays if (found := _LAYER.match(name)) is not None}
    if numbers != set(range(len(numbers))) or not numbers:
        raise CheckpointError(
            f"the prediction heads in {tensors.directory} have layers {sorted(numbers)}; expected 0, 1 …"
        )
    return len(numbers)


def _new_layer(target: TargetParts, *, sparse: bool) -> nn.Module:
    """A full-attention layer of the target's class, without weights; with experts where the head has a router."""
    wanted: dict[str, Any] = {"full_attention_interval": 1, "decoder_sparse_step": 1, "mlp_only_layers": []}
    if not sparse:
        wanted["num_experts"] = 0
    known = {field.name for field in fields(target.args)}
    args = replace(target.args, **{name: value for name, value in wanted.items() if name in known})
    layer: nn.Module = type(target.layers[0])(args, layer_idx=0)
    return layer
