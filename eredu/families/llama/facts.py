"""Facts of llama and Mistral, and of llama heads in a directory of their own (see `eredu.families.llama.heads`)."""

from __future__ import annotations

from eredu.checkpoints.caches import by_layer_types
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, attention_weights, weights


def claim(config: ModelConfig) -> HeadClaim:  # noqa: ARG001 (every claim rule has it)
    """One head of one layer."""
    layer = "mtp.layers.0."
    required = weights("mtp.", "fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    required += [*weights(layer, "input_layernorm", "post_attention_layernorm"), *attention_weights(layer)]
    required += weights(f"{layer}mlp.", "gate_proj", "up_proj", "down_proj")
    return HeadClaim(1, ("mtp.",), tuple(required))


FAMILIES = (
    Family(
        folder="llama",
        model_types=("llama",),
        caches=by_layer_types,
        heads=HeadFacts(claim=claim, inside=False),
        even_attention=True,
        lends_attention=("llama",),
        gguf=("llama",),
    ),
    Family(folder="llama", model_types=("mistral", "ministral3"), caches=by_layer_types, even_attention=True),
)
