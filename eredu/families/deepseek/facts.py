"""Facts of DeepSeek V3, R1, V3.2 and Kimi K2."""

from __future__ import annotations

from eredu.checkpoints.cache_rules import every
from eredu.checkpoints.caches import LATENT
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, claimed_heads, weights


def claim(config: ModelConfig) -> HeadClaim:
    """Heads are the layers behind the last."""
    count, depth = claimed_heads(config), config.layers
    prefixes = tuple(f"layers.{depth + i}." for i in range(count))
    stems = ("enorm", "hnorm", "eh_proj", "shared_head.norm", "input_layernorm", "self_attn.o_proj")
    return HeadClaim(count, prefixes, tuple(name for prefix in prefixes for name in weights(prefix, *stems)))


FAMILIES = (
    Family(
        folder="deepseek",
        model_types=("deepseek_v3", "deepseek_v32", "kimi_k2"),
        caches=every(LATENT),
        heads=HeadFacts(claim=claim, cache=LATENT),
        assumed={
            "hidden_act": "silu",
            "scoring_func": "sigmoid",
            "topk_method": "noaux_tc",
            "rope_interleave": True,
            "tie_word_embeddings": False,
        },
        gguf=("deepseek2",),
        gguf_cache=LATENT,
    ),
)
