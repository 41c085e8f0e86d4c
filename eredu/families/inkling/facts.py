"""Facts of Inkling."""

from __future__ import annotations

from eredu.checkpoints.caches import RECURRENT, every
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, claimed_heads, weights
from eredu.contract.errors import CheckpointError


def claim(config: ModelConfig) -> HeadClaim:
    """Heads count in a nested config of their own."""
    nested = config.get("mtp_config", {})
    if not isinstance(nested, dict):
        raise CheckpointError(f"{config.path} gives mtp_config as {nested!r}; expected an object")
    count, stated = claimed_heads(ModelConfig(config.path, nested, nested))
    stems = ("hidden_norm", "embed_norm", "input_proj")
    required = (name for i in range(count) for name in weights(f"mtp.layers.{i}.", *stems))
    return HeadClaim(count, ("mtp.",), tuple(required), stated)


FAMILIES = (
    # Every layer keeps keys and values, and the tails of its convolutions, whose recurrence eredu does not follow.
    Family(
        folder="inkling", model_types=("inkling",), caches=every(RECURRENT), heads=HeadFacts(claim=claim, runs=False)
    ),
)
