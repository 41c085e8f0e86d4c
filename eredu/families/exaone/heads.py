"""Heads of K-EXAONE: fused heads under Qwen's names, each with a dense decoder layer of the target's class.

The embedding is the first half of the fused vector. A head reads the hidden state behind the target's final norm, and
the next one behind its own. Norms multiply as they are stored.

A head's layer attends as `mtp_layer_types` says, and to everything where the config says nothing. As in the target, a
layer of full attention has no rotary positions if any of the target's layers has a window. The release says
`full_attention`. Source: vLLM (`exaone_moe_mtp`, and `exaone_moe` with `is_mtp`), SGLang (`exaone_moe`), and NVIDIA's
Megatron Bridge, which takes full attention for a missing list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.nn as nn

from eredu.contract.errors import CapabilityError
from eredu.families.exaone.facts import HEAD_TYPES, HEAD_WINDOWS, head_types, require_one_window
from eredu.families.fused_module import PREFIX, FusedModule, load_fused
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.target_parts import TargetParts
from eredu.mlx.caches.whole_window import WholeWindowCache

INSTEAD = ", or decode plainly (--no-mtp)"


class ExaoneModule(FusedModule):
    """The weights of all heads, whose layers attend alike.

    Args:
        layers: A decoder layer a head.
        args: mlx-lm's description of the decoder.
    """

    def __init__(self, layers: list[nn.Module], args: Any) -> None:
        super().__init__(layers, args.hidden_size, args.rms_norm_eps)
        self._window = args.sliding_window

    def new_cache(self, bucket: int | None = None) -> Any:
        """Keys and values, those behind a window hidden where the layers slide."""
        slides = self.layers[0].is_sliding_window
        return WholeWindowCache(self._window, bucket) if slides else super().new_cache(bucket)


def load_heads(tensors: HeadTensors, target: TargetParts) -> PredictionHeads:
    """Heads of K-EXAONE on a loaded target.

    Raises `CheckpointError` as `fill_module` does and for a config that does not describe the heads, `CapabilityError`
    for heads of several kinds of attention.
    """
    config = tensors.config
    types = head_types(config, tensors.count)
    require_one_window(config, HEAD_WINDOWS, instead=INSTEAD)
    if len(set(types)) > 1:
        raise CapabilityError(
            f"{config.path} gives heads of several kinds of attention ({HEAD_TYPES}), which eredu does not run{INSTEAD}"
        )
    layers = _dense_layers(target, types)
    named = tensors.renamed(lambda name: name.removeprefix(PREFIX))
    return load_fused(named, target, ExaoneModule(layers, target.args))


def _dense_layers(target: TargetParts, types: list[str]) -> list[nn.Module]:
    """Layers behind the target's: mlx-lm looks through all kinds for a window to see which layers have positions."""
    before = target.args.layer_types
    every = [*before, *types]
    args = replace(target.args, layer_types=every, is_moe_layer=[False] * len(every))
    return [type(target.layers[0])(args, number) for number in range(len(before), len(every))]
