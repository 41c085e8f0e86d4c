"""Facts of K-EXAONE (`exaone_moe`): layers with a window and layers of full attention, and heads under Qwen's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.checkpoints.caches import LayerCache, by_layer_types
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, claimed_heads, fused_weights
from eredu.contract.errors import CheckpointError

HEAD_TYPES, HEAD_WINDOWS = "mtp_layer_types", "mtp_sliding_windows"
FULL, SLIDING = "full_attention", "sliding_attention"


def require_one_window(config: ModelConfig, key: str, *, instead: str = "") -> None:
    """Raise `CheckpointError` where a list of windows has another than `sliding_window`, the only one mlx-lm reads.

    A layer of full attention has 0 there. `instead` goes on from the advice to use another engine.
    """
    given, window = config.get(key), config.get("sliding_window")
    others = [each for each in given if each not in (0, None, window)] if isinstance(given, list) else []
    if others:
        raise CheckpointError(
            f"{config.path} lists the window {others[0]!r} under {key}, and gives sliding_window as {window!r}, which "
            f"mlx-lm's {config.model_type} takes for every layer, so it would be another model. Use an engine that "
            f"follows the list{instead}"
        )


def caches(config: ModelConfig) -> list[LayerCache | None]:
    """By `layer_types`. Raises `CheckpointError` for windows of several sizes, and for clamped feed-forwards."""
    require_one_window(config, "sliding_windows")
    limits = config.get("swiglu_limits")
    if isinstance(limits, list) and any(limits):
        raise CheckpointError(
            f"{config.path} clamps layers (swiglu_limits); mlx-lm's {config.model_type} clamps none, so it would be "
            "another model. Use an engine that follows the setting"
        )
    return by_layer_types(config)


def layers_of_experts(config: ModelConfig) -> Mapping[str, Any]:
    """Transformers names the feed-forward of each layer, or counts the dense ones; mlx-lm wants a flag a layer."""
    named = config.strings("mlp_layer_types")
    if named is not None:
        return {"is_moe_layer": [kind == "sparse" for kind in named]}
    if config.get("is_moe_layer") is not None:
        return {}
    dense = config.count("first_k_dense_replace", 1)
    return {"is_moe_layer": [layer >= dense for layer in range(config.layers)]}


def claim(config: ModelConfig) -> HeadClaim:
    """The heads that the config counts; the release has one, which is dense."""
    count, stated = claimed_heads(config)
    stems = ("self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    return HeadClaim(count, ("mtp.",), tuple(fused_weights(count, *stems)), stated)


def head_types(config: ModelConfig, count: int) -> list[str]:
    """Kind of attention of each of `count` heads: as the config lists it, else full attention.

    Raises `CheckpointError` for unknown kinds, and for fewer of them than heads.
    """
    types = config.strings(HEAD_TYPES)
    if types is None:
        return [FULL] * count
    if len(types) < count or set(types) - {FULL, SLIDING}:
        raise CheckpointError(
            f"{config.path} gives {HEAD_TYPES} as {str(list(types))[:80]}; expected {FULL} or {SLIDING} for each of "
            f"{count} prediction heads"
        )
    return list(types[:count])


FAMILIES = (
    Family(
        folder="exaone",
        model_types=("exaone_moe",),
        caches=caches,
        heads=HeadFacts(claim=claim),
        implied=layers_of_experts,
        assumed={
            "attention_bias": False,
            "hidden_act": "silu",
            "mlp_bias": False,
            "scoring_func": "sigmoid",
            "topk_method": "noaux_tc",
        },
        even_attention=True,
    ),
)
