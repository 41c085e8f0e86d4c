"""Facts of MiMo-7B (`mimo`): heads lie under `model.mtp_layers`, each one a decoder layer with norms of its own."""

from __future__ import annotations

from eredu.checkpoints.caches import FULL, every
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, attention_weights, claimed_heads, weights

FUSION = ("token_layernorm", "hidden_layernorm", "input_proj")
OUTPUT_NORM = "final_layernorm"


def claim(config: ModelConfig) -> HeadClaim:
    """The heads that the config counts; the release has one."""
    count, stated = claimed_heads(config)
    prefixes = tuple(f"mtp_layers.{number}." for number in range(count))
    stems = (*FUSION, OUTPUT_NORM, "input_layernorm", "post_attention_layernorm")
    required = [name for prefix in prefixes for name in (*weights(prefix, *stems), *attention_weights(prefix))]
    return HeadClaim(count, prefixes, tuple(required), stated)


FAMILIES = (
    Family(
        folder="mimo",
        model_types=("mimo",),
        caches=every(FULL),
        heads=HeadFacts(claim=claim),
        assumed={"attention_bias": True, "hidden_act": "silu", "use_mrope": False, "use_sliding_window": False},
        even_attention=True,
    ),
)
