"""Facts of DeepSeek V4."""

from __future__ import annotations

from eredu.checkpoints.caches import COMPRESSED, every
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, claimed_heads, weights
from eredu.contract.errors import CheckpointError

DSPARK_KEYS = ("dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids", "dspark_markov_rank")


def claim(config: ModelConfig) -> HeadClaim:
    """Ordinary heads, or the stages of a fused drafter where all of `DSPARK_KEYS` are there."""
    count, stated = claimed_heads(config)
    fused = [key for key in DSPARK_KEYS if config.get(key) is not None]
    if fused and len(fused) != len(DSPARK_KEYS):
        raise CheckpointError(
            f"{config.path} has {', '.join(fused)} and not all of {', '.join(DSPARK_KEYS)}; expected all of them "
            "(a fused drafter) or none (ordinary heads)"
        )
    if fused:
        last = f"mtp.{count - 1}."
        required = [*weights("mtp.0.", "main_proj", "main_norm"), *weights(last, "norm", "markov_head.markov_w1")]
    else:
        stems = ("enorm", "hnorm", "norm", "e_proj", "h_proj")
        required = [name for i in range(count) for name in weights(f"mtp.{i}.", *stems)]
    return HeadClaim(count, ("mtp.",), tuple(required), stated)


FAMILIES = (
    Family(
        folder="deepseek_v4",
        model_types=("deepseek_v4",),
        caches=every(COMPRESSED),
        heads=HeadFacts(claim=claim, runs=False),
        gguf=("deepseek4",),
        gguf_cache=COMPRESSED,
    ),
)
