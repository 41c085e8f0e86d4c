"""Facts of Qwen3-Next and Qwen3.5, dense and with experts."""

from __future__ import annotations

from eredu.checkpoints.caches import FOLLOWED, FULL, LayerCache, by_layer_types
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import COUNT_KEYS, Family, HeadClaim, HeadFacts, claimed_heads, fused_weights


def caches(config: ModelConfig) -> list[LayerCache | None]:
    """Full attention in each `full_attention_interval`-th layer, gated delta in the others."""
    n = max(1, config.count("full_attention_interval", 4))
    default: list[LayerCache | None] = [FULL if i % n == n - 1 else FOLLOWED for i in range(config.layers)]
    return by_layer_types(config, default, linear=FOLLOWED)


def claim(config: ModelConfig) -> HeadClaim:
    """Names as published. Qwen3-Next's releases hold one head and state no count."""
    count, stated = claimed_heads(config, "mtp_num_hidden_layers", *COUNT_KEYS)
    norms = ("self_attn.q_norm", "self_attn.k_norm")
    return HeadClaim(count, ("mtp.",), tuple(fused_weights(count, *norms, *_feed_forward(config))), stated)


def _feed_forward(config: ModelConfig) -> list[str]:
    projections = ("gate_proj", "up_proj", "down_proj")
    if not config.count("num_experts", 0):
        return [f"mlp.{name}" for name in projections]
    experts = [f"mlp.{part}.{name}" for part in ("shared_expert", "experts") for name in projections]
    return [*experts, "mlp.gate", "mlp.shared_expert_gate"]


FAMILIES = (
    Family(
        folder="qwen",
        model_types=("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"),
        caches=caches,
        heads=HeadFacts(claim=claim),
        decoders={"qwen3_5_text": "qwen3_5", "qwen3_5_moe_text": "qwen3_5_moe"},
        even_attention=True,
        gguf=("qwen3next", "qwen35", "qwen35moe"),
    ),
)
