"""Facts of LongCat-Flash (`longcat_flash`): each layer keeps two latent caches; the head lies under `model.mtp`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.checkpoints.caches import LATENT, every
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, claimed_heads, weights

LAYERS = "num_layers"
SCALES = ("mla_scale_q_lora", "mla_scale_kv_lora")
"""Whether the latents are scaled up; Transformers always does it, and writes neither."""
INNER = "transformer_layer."
"""In front of the head's feed-forward."""


def implied(config: ModelConfig) -> Mapping[str, Any]:
    """Layers are counted under a name of their own: Transformers gives the other key as twice the number."""
    scales = {key: True for key in SCALES if config.get(key) is None}
    return scales | ({} if config.get(LAYERS) is None else {"num_hidden_layers": config.count(LAYERS)})


def claim(config: ModelConfig) -> HeadClaim:
    """The release has one head, and its config does not say so."""
    count, stated = claimed_heads(config)
    layer = [f"mtp.layers.{number}." for number in range(count)]
    stems = ("enorm.m", "hnorm.m", "eh_proj", "input_layernorm", "post_attention_layernorm", "self_attn.o_proj")
    inner = tuple(f"{INNER}mlp.{part}_proj" for part in ("gate", "up", "down"))
    required = [name for prefix in layer for name in weights(prefix, *stems, *inner)]
    return HeadClaim(count, ("mtp.",), (*required, "mtp.norm.weight"), stated)


FAMILIES = (
    Family(
        folder="longcat",
        model_types=("longcat_flash",),
        caches=every(LATENT),
        heads=HeadFacts(claim=claim, cache=LATENT),
        implied=implied,
        assumed={
            "attention_method": "MLA",
            "hidden_act": "silu",
            "norm_topk_prob": False,
            "num_nextn_predict_layers": 1,
            "tie_word_embeddings": False,
            "zero_expert_type": "identity",
            **dict.fromkeys(SCALES, True),
        },
    ),
)
