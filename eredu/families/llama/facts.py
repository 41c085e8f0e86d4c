"""Facts of llama and Mistral, and of llama heads in a directory of their own (see `eredu.families.llama.heads`)."""

from __future__ import annotations

from eredu.checkpoints.caches import by_layer_types
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, fused_weights


def claim(config: ModelConfig) -> HeadClaim:  # noqa: ARG001 (every claim rule has it)
    """One head of one layer."""
    required = fused_weights(1, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
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
