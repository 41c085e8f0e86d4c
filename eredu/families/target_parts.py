"""What heads borrow from their target: embedding, final norm, output projection, and the description of its layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx

from eredu.contract.errors import CapabilityError
from eredu.mlx.adapter import LanguageModel


@dataclass(frozen=True)
class TargetParts:
    """Parts of a decoder that mlx-lm built.

    Attributes:
        embed: The embedding, from ids (rows,) to (rows, hidden size).
        norm: The final norm's module.
        project: The output projection, from (rows, hidden size) to (rows, vocabulary); the embedding's where tied.
        layers: The decoder layers held here; a head's own layer is often one more of their class.
        args: mlx-lm's description of the decoder, from which such a layer is built.
        sanitize: mlx-lm's conversion of published tensors to the decoder's parameters, for names of decoder layers.
    """

    embed: Callable[[mx.array], mx.array]
    norm: Any
    project: Callable[[mx.array], mx.array]
    layers: Sequence[Any]
    args: Any
    sanitize: Callable[[dict[str, mx.array]], dict[str, mx.array]] = dict

    @classmethod
    def of(cls, model: LanguageModel) -> TargetParts:
        """Find the parts, whatever wrapper the family puts around its decoder."""
        outer: Any = getattr(model, "language_model", model)
        decoder = getattr(outer, "model", None) or getattr(outer, "backbone", None)
        embed = getattr(decoder, "embed_tokens", None) or getattr(decoder, "embeddings", None)
        norm = getattr(decoder, "norm", None) or getattr(decoder, "norm_f", None)
        if decoder is None or embed is None or norm is None:
            raise CapabilityError(
                f"the decoder {type(model).__name__} has no embedding and final norm where eredu looks for them; its "
                "heads cannot be run"
            )
        project = outer.lm_head if "lm_head" in outer else embed.as_linear
        sanitize = getattr(outer, "sanitize", dict)
        # Where ranks share the layers, the places of those that others hold are empty.
        layers = [layer for layer in decoder.layers if layer is not None]
        return cls(embed, norm, cast("Callable[[mx.array], mx.array]", project), layers, outer.args, sanitize)
