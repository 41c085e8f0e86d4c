"""Facts of Step 3.5 (`step3p5`): heads are dense layers behind the last, which the config's lists of layers reach."""

from __future__ import annotations

from eredu.checkpoints.caches import LayerCache, by_layer_types
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, attention_weights, claimed_heads, weights
from eredu.contract.errors import CheckpointError

PUBLISHED_HEADS = 3
SHARED_HEAD = "transformer.shared_head."
TYPES = "layer_types"
BY_HEAD = (TYPES, "rope_theta", "partial_rotary_factors", "swiglu_limits_shared", "use_rope_layers")
"""Keys under which the config may list a value for each layer, those of the heads behind the target's."""
BY_LAYER = (*BY_HEAD, "swiglu_limits")
"""With the one that layers of experts alone read."""


def require_lists(config: ModelConfig, layers: int, keys: tuple[str, ...] = BY_LAYER, *, instead: str = "") -> None:
    """Raise `CheckpointError` where a list ends before that many layers, or one has no rotary positions.

    mlx-lm takes a value of its own for a layer that a list does not reach, and turns every layer. `instead` goes on
    from the advice to fetch another config.
    """
    if config.strings(TYPES) is None:
        raise CheckpointError(f"{config.path} names no {TYPES}; expected full_attention or sliding_attention a layer")
    for key in keys:
        given = config.get(key)
        if isinstance(given, list) and 0 < len(given) < layers:
            raise CheckpointError(
                f"{config.path} gives {key} for {len(given)} layers, and {layers} read it: what the others have would "
                f"be a guess. Fetch the original config.json{instead}"
            )
    if False in (config.get("use_rope_layers") or ()):
        raise CheckpointError(
            f"{config.path} lists layers without rotary positions under use_rope_layers; mlx-lm's {config.model_type} "
            "turns every layer, so it would be another model. Use an engine that follows the setting"
        )


def caches(config: ModelConfig) -> list[LayerCache | None]:
    """By `layer_types`, which goes on behind the last layer."""
    require_lists(config, config.layers)
    own = (config.strings(TYPES) or ())[: config.layers]
    return by_layer_types(config.with_values({TYPES: list(own)}))


def claim(config: ModelConfig) -> HeadClaim:
    """The heads that the config counts; the release has three."""
    count, stated = claimed_heads(config, default=PUBLISHED_HEADS)
    prefixes = tuple(f"layers.{config.layers + number}." for number in range(count))
    stems = ("enorm", "hnorm", "eh_proj", f"{SHARED_HEAD}norm", f"{SHARED_HEAD}output")
    norms = ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")
    required = [name for prefix in prefixes for name in (*weights(prefix, *stems, *norms), *attention_weights(prefix))]
    return HeadClaim(count, prefixes, tuple(required), stated)


FAMILIES = (
    Family(
        folder="step",
        model_types=("step3p5",),
        caches=caches,
        heads=HeadFacts(claim=claim),
        assumed={
            "att_impl_type": "GQA",
            "moe_router_activation": "sigmoid",
            "sink": False,
            "tie_word_embeddings": False,
            "use_moe_router_bias": True,
            "use_qk_norm": True,
            "zero_centered": True,
        },
    ),
)
