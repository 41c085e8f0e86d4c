"""Whether a config.json and the headers beside it describe one decoder: decided before anything is built.

What both hold is compared, and a disagreement is refused in words that inspection, loading and validation share. Where
the config is silent, or its levels disagree about tying, the tensors decide.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family
from eredu.checkpoints.head_files import WRAPPERS
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError

_LAYER = re.compile(r"^layers\.(\d+)\.")
_EMBEDDING = ("embed_tokens.weight", "embeddings.weight")
_OUTPUTS = ("lm_head.", "embed_out.", "output.", "output_layer.", "head.")
"""Beginnings of what families call their output projection."""
TIED = "tie_word_embeddings"


def ties_embeddings(config: ModelConfig, names: Collection[str]) -> bool:
    """Whether the output projection is the embedding.

    As the config states it; where it is silent or contradicts itself, it is tied if no projection is stored. Raises
    `CheckpointError` where it states a projection of its own and none is there.
    """
    separate = any(WRAPPERS.sub("", name).startswith(_OUTPUTS) for name in names)
    for stated in config.stated(TIED):
        if not isinstance(stated, bool):
            raise CheckpointError(f"{config.path} gives {TIED} as {str(stated)[:80]!r}; expected true or false")
    said = set(config.stated(TIED))
    if len(said) != 1:
        return not separate
    tied = True in said
    if not tied and not separate:
        raise CheckpointError(
            f"{config.path} says that the output projection is not the embedding ({TIED} is false), and no file holds "
            "an lm_head.weight: the checkpoint is incomplete. Fetch all its weight files"
        )
    return tied


def require_agreement(config: ModelConfig, family: Family | None, trunk: Collection[StoredTensor]) -> None:
    """Raise `CheckpointError` where layers, sizes or numbers of heads are not those of the decoder's tensors.

    Args:
        config: The config.
        family: Its family; the shapes of attention are compared where all its layers have the same.
        trunk: The decoder's tensors, without heads'.
    """
    stored = {WRAPPERS.sub("", tensor.name): tensor for tensor in trunk}
    _require_layers(config, stored)
    _require_embedding(config, stored)
    if family is not None and family.even_attention:
        _require_attention(config, stored)


def _require_layers(config: ModelConfig, stored: Mapping[str, StoredTensor]) -> None:
    layers, numbers = config.layers, {int(found[1]) for name in stored if (found := _LAYER.match(name))}
    if layers > len(stored):
        raise CheckpointError(
            f"{config.path} gives num_hidden_layers as {layers}, and the files hold {len(stored)} tensors in all; "
            "config and weights are not of one checkpoint"
        )
    if not numbers or numbers == set(range(layers)):
        return
    beyond = [number for number in numbers if number >= layers]
    what = f"also layer {min(beyond)}" if beyond else f"no layer {min(set(range(layers)) - numbers)}"
    raise CheckpointError(
        f"{config.path} gives num_hidden_layers as {layers}, and the files hold {what}: config and weights are not of "
        "one checkpoint, or weight files are missing"
    )


def _require_embedding(config: ModelConfig, stored: Mapping[str, StoredTensor]) -> None:
    tensor = next((stored[name] for name in _EMBEDDING if name in stored), None)
    if tensor is None or len(tensor.shape) != 2:
        return
    packed = f"{tensor.name.removesuffix('weight')}scales" in {other.name for other in stored.values()}
    for key, size in (("vocab_size", tensor.shape[0]), ("hidden_size", tensor.shape[1])):
        if not (packed and key == "hidden_size"):
            _require_size(config, key, config.get(key), {size}, tensor)


def _require_attention(config: ModelConfig, stored: Mapping[str, StoredTensor]) -> None:
    heads = config.get("num_attention_heads")
    if not isinstance(heads, int) or heads < 1:
        return
    pairs = config.count("num_key_value_heads", heads)
    for name, query in stored.items():
        if not name.endswith("self_attn.q_proj.weight"):
            continue
        key = stored.get(name.replace("q_proj", "k_proj"))
        width = config.get("head_dim") or query.shape[0] // heads
        # A gated projection of queries has the rows of a gate behind those of each head.
        if query.shape[0] not in {width * heads, 2 * width * heads}:
            raise _other_heads(config, "num_attention_heads", heads, query)
        widths = {width} if config.get("head_dim") else {width, width // 2}
        if key is not None and key.shape[0] not in {pairs * width for width in widths}:
            raise _other_heads(config, "num_key_value_heads", pairs, key)


def _other_heads(config: ModelConfig, key: str, count: int, tensor: StoredTensor) -> CheckpointError:
    width = config.get("head_dim")
    each = "" if width is None else f", of head_dim {width}"
    return CheckpointError(
        f"{config.path} gives {key} as {count}{each}, and {tensor.name} has {tensor.shape[0]} rows: config and weights "
        "are not of one checkpoint"
    )


def _require_size(config: ModelConfig, key: str, stated: object, found: Collection[int], tensor: StoredTensor) -> None:
    if stated is not None and stated not in found:
        raise CheckpointError(
            f"{config.path} gives {key} as {stated!r}, and {tensor.name} has the shape {list(tensor.shape)}: config "
            "and weights are not of one checkpoint"
        )
