"""Facts of ERNIE 4.5: dense (`ernie4_5`), and mixtures of experts with prediction heads (`ernie4_5_moe`).

A head's parts lie under `model.mtp_…`, each with the head's number behind its name; the target's final norm stands
behind its layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.checkpoints.caches import FULL, every
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, attention_weights, claimed_heads, weights

FUSION = ("mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj")
BLOCK = "mtp_block"


def claim(config: ModelConfig) -> HeadClaim:
    """The heads that the config counts; the releases have one."""
    count, stated = claimed_heads(config)
    prefixes = tuple(f"{part}." for part in (*FUSION, BLOCK))
    required = [f"{part}.{number}.weight" for number in range(count) for part in FUSION]
    for number in range(count):
        block = f"{BLOCK}.{number}."
        required += [*weights(block, "input_layernorm", "post_attention_layernorm"), *attention_weights(block)]
    return HeadClaim(count, prefixes, tuple(required), stated)


def last_layer_of_experts(config: ModelConfig) -> Mapping[str, Any]:
    """Transformers counts the last layer with experts from behind; mlx-lm takes -1 for none at all."""
    return {"moe_layer_end_index": config.layers - 1} if config.get("moe_layer_end_index") == -1 else {}


FAMILIES = (
    Family(folder="ernie", model_types=("ernie4_5",), caches=every(FULL), even_attention=True),
    Family(
        folder="ernie",
        model_types=("ernie4_5_moe",),
        caches=every(FULL),
        heads=HeadFacts(claim=claim),
        assumed={"hidden_act": "silu", "moe_gate_act": "softmax", "moe_norm_min": 1e-12, "use_bias": False},
        implied=last_layer_of_experts,
        dropped={"ernie4_5_moe.Ernie4_5_MoeMLP": "moe_statics.e_score_correction_bias"},
        even_attention=True,
    ),
)
