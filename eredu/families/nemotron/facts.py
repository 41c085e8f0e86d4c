"""Facts of Nemotron-H."""

from __future__ import annotations

from eredu.checkpoints.caches import FOLLOWED, FULL, LayerCache
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim, HeadFacts, claimed_heads, weights
from eredu.contract.errors import CapabilityError, CheckpointError

ATTENTION, EXPERTS, MLP, RECURRENT = "*", "E", "-", "M"
CACHES = {RECURRENT: FOLLOWED, ATTENTION: FULL, MLP: None, EXPERTS: None}
"""What a block keeps, by its letter."""
LETTERS = {
    "full_attention": ATTENTION,
    "attention": ATTENTION,
    "moe": EXPERTS,
    "mlp": MLP,
    "linear_attention": RECURRENT,
    "mamba": RECURRENT,
}
"""Letters of the blocks that a config may list by name."""
DEFAULT_HEAD = "*E"
"""Blocks of a head that the config does not describe, as Transformers has it."""


def letters(words: tuple[str, ...]) -> str:
    """The pattern that a list of block names stands for; `?` for a name that is none."""
    return "".join(LETTERS.get(word, "?") for word in words)


def layer_pattern(config: ModelConfig) -> str:
    """Letters of the layers, whichever way they are written: as a pattern, or listed by name under either key."""
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern
    return letters(config.strings("layers_block_type") or config.strings("layer_types") or ())


def implied(config: ModelConfig) -> dict[str, int]:
    """The pattern has a letter a layer; Transformers leaves the count out, and passes over one that is there."""
    pattern = layer_pattern(config)
    return {"num_hidden_layers": len(pattern)} if pattern else {}


def caches(config: ModelConfig) -> list[LayerCache | None]:
    """By the pattern of blocks."""
    pattern = layer_pattern(config)
    if not pattern or set(pattern) - CACHES.keys():
        raise CheckpointError(
            f"{config.path} gives hybrid_override_pattern (or layers_block_type) as {pattern!r}; expected one of "
            f"{', '.join(CACHES)} for every layer"
        )
    return [CACHES[letter] for letter in pattern]


def claim(config: ModelConfig) -> HeadClaim:
    """Steps of as many blocks as their pattern has letters; the first fuses, the last norms."""
    count, stated = claimed_heads(config)
    length = len(stated_head_pattern(config))
    required: list[str] = []
    for start in range(0, count * length, length):
        required += weights(f"mtp.layers.{start}.", "enorm", "hnorm", "eh_proj")
        required += weights(f"mtp.layers.{start + length - 1}.", "final_layernorm")
    return HeadClaim(count, ("mtp.",), tuple(required), stated)


def stated_head_pattern(config: ModelConfig) -> str:
    """Letters of one step's blocks, whichever way they are written. Raises `CheckpointError` for anything else."""
    given = config.get("mtp_hybrid_override_pattern")
    if given is None:
        words = config.strings("mtp_layers_block_type")
        given = DEFAULT_HEAD if words is None else letters(words)
    if not isinstance(given, str) or not given or set(given) - CACHES.keys():
        raise CheckpointError(
            f"{config.path} gives the head's layers as {str(given)[:80]!r}; expected one of {', '.join(LETTERS)} for "
            "each in mtp_layers_block_type, or a pattern of *, E and - in mtp_hybrid_override_pattern"
        )
    return given


def head_pattern(config: ModelConfig) -> str:
    """Letters of one step's blocks: `*` attention, `E` mixture of experts, `-` MLP.

    Raises `CheckpointError` for anything else, `CapabilityError` for recurrent blocks.
    """
    given = stated_head_pattern(config)
    if RECURRENT in given:
        raise CapabilityError(
            f"{config.path} puts recurrent layers into its prediction head ({given}); eredu rolls back heads by "
            "length only. Decode plainly (--no-mtp)"
        )
    return given


FAMILIES = (
    Family(
        folder="nemotron",
        model_types=("nemotron_h",),
        caches=caches,
        implied=implied,
        heads=HeadFacts(claim=claim),
        assumed={
            "mlp_hidden_act": "relu2",
            "mamba_hidden_act": "silu",
            "attention_bias": False,
            "tie_word_embeddings": False,
            "n_shared_experts": 1,
        },
        gguf=("nemotron_h", "nemotron_h_moe"),
    ),
)
