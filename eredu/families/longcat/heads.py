"""The head of LongCat-Flash: one layer with one latent attention and one dense feed-forward, of the target's classes.

mlx-lm has no such layer: the target's have two of each and a shortcut of experts. Sources: the release's tensor names,
and vLLM's and SGLang's readings of them, which agree: the embedding is the first half of the fused vector, and the head
reads the hidden state behind the target's final norm.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.extra_layers import APART, KeptCopy
from eredu.families.filling import fill_module, require_nothing_left
from eredu.families.head_tensors import HeadTensors, convert_blocks, is_copy, take_module
from eredu.families.longcat.facts import INNER
from eredu.families.mlx_lm_patches import patch_layers
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import LayerStage, Stage
from eredu.families.target_parts import TargetParts

PREFIX = "model.mtp."
LAYER = "layers.0."
FIRST = "self_attn.0."
"""In front of the names of a target layer's first attention, whose conversion the head's passes through."""


class LatentLayer(nn.Module):
    """Latent attention and a feed-forward, each behind a norm.

    Args:
        like: A layer of the target.
        args: mlx-lm's description of the decoder.
    """

    def __init__(self, like: Any, args: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.input_layernorm = nn.RMSNorm(args.hidden_size, eps=args.rms_norm_eps)
        self.self_attn: Any = type(like.self_attn[0])(args)
        self.post_attention_layernorm = nn.RMSNorm(args.hidden_size, eps=args.rms_norm_eps)
        self.mlp: Any = type(like.mlps[0])(args)

    def __call__(self, x: mx.array, mask: mx.array, cache: Any) -> mx.array:
        """Shape (1, rows, hidden size) in and out."""
        x = x + self.self_attn(self.input_layernorm(x), mask=mask, cache=cache)
        return cast(mx.array, x + self.mlp(self.post_attention_layernorm(x)))


class LongcatStage(LayerStage):
    """The head, of a `LatentLayer`."""

    array_mask = True

    def stored_name(self, parameter: str) -> str:
        """As `_parameter` reads it."""
        part, _, inner = parameter.partition(".")
        if part == self.output_norm:
            return f"{PREFIX}{parameter}"
        if part in self.fusion[:2]:
            return f"{PREFIX}{LAYER}{part}.m.{inner}".removesuffix(".")
        own = inner if part == "layer" else parameter
        return f"{PREFIX}{LAYER}{INNER if own.startswith('mlp') else ''}{own}"


def load_heads(tensors: HeadTensors, parts: TargetParts) -> PredictionHeads:
    """Build the head of a checkpoint from its published or converted tensors.

    Raises `CheckpointError` naming tensors that are missing, left over, misshapen or dead.
    """
    args = parts.args
    named = tensors.renamed(lambda name: name.removeprefix(APART))
    arrays = dict(named.arrays)
    embedding = take_module(arrays, "embed_tokens.")
    block = named.renamed(lambda name: name.replace(f"{LAYER}self_attn.", f"{LAYER}{FIRST}"))
    layer = convert_blocks(block, parts, [LAYER], layers="model.layers.")[0]
    take_module(arrays, LAYER)
    norm = take_module(arrays, f"{LongcatStage.output_norm}.")
    require_nothing_left(arrays, tensors.directory)
    module = LongcatStage(LatentLayer(parts.layers[0], args), args.hidden_size, args.rms_norm_eps)
    own = {_parameter(name): array for name, array in layer.items()}
    fill_module(
        module, own | {f"{module.output_norm}.{name}": array for name, array in norm.items()}, tensors.directory
    )
    patch_layers(module)
    if not embedding or is_copy(embedding, parts.embed):
        return PredictionHeads.of([Stage(module, parts.embed, parts.project)], parts, tensors)
    kept = KeptCopy(nn.Embedding(args.vocab_size, args.hidden_size), f"{PREFIX}embed_tokens.")
    fill_module(kept, {f"inner.{name}": array for name, array in embedding.items()}, tensors.directory)
    return PredictionHeads.of([Stage(module, kept, parts.project, (kept,))], parts, tensors)


def _parameter(name: str) -> str:
    """Name in `LongcatStage` of a tensor of the layer, as the conversion leaves it."""
    if name.startswith(LongcatStage.fusion):
        return name.replace(".m.", ".")
    return f"layer.{name.removeprefix(INNER).replace(FIRST, 'self_attn.')}"
