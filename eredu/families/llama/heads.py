"""A fused head with one llama decoder layer, in a directory of its own: for targets whose makers published no head.

The directory holds SafeTensors files with the names of Qwen's heads (`mtp.fc.weight`, `mtp.layers.0.…`), and a
config.json:

- `model_type`: `llama_mtp`;
- `text_config`: the layer, under llama's keys (`hidden_size`, `intermediate_size`, `num_attention_heads`,
  `num_key_value_heads`, `rms_norm_eps`, `rope_theta`, `rope_traditional`, `max_position_embeddings`);
- `wiring`: `{"hidden": "before-norm" or "after-norm", "first": "embedding" or "hidden", "chain": as "hidden"}`;
- `max_proposals`: how deep the head was trained, 1 unless given.

Norms multiply as they are stored. Rotary positions are half-split unless `rope_traditional` says otherwise: a head
has an order of its own, whatever its target's file does.
"""

from __future__ import annotations

from typing import Any

import mlx.nn as nn

from eredu.contract.errors import CheckpointError
from eredu.families.fused_module import PREFIX, FusedModule, load_fused
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.target_parts import TargetParts
from eredu.mlx.adapter import build_llama


def load_heads(tensors: HeadTensors, target: TargetParts) -> PredictionHeads:
    """A llama head on a loaded target of any family. Raises `CheckpointError` for one that does not fit it."""
    config = tensors.config
    hidden = config.count("hidden_size")
    if hidden != target.args.hidden_size:
        raise CheckpointError(
            f"the prediction head in {tensors.directory} reads hidden states of {hidden} numbers, and the target has "
            f"{target.args.hidden_size}; give the head that was trained for this target"
        )
    settings: dict[str, Any] = {**config.decoder, "model_type": "llama", "num_hidden_layers": 1, "vocab_size": 1}
    try:
        layer: nn.Module = build_llama(settings).layers[0]
    except TypeError as error:
        raise CheckpointError(f"text_config of {config.path} does not describe a llama layer: {error}") from error
    module = FusedModule([layer], hidden, float(config.get("rms_norm_eps", 1e-5)))
    return load_fused(tensors.renamed(lambda name: name.removeprefix(PREFIX)), target, module)
