"""GGUF files of the llama family as mlx-lm models; quantised tensors stay quantised.

GGUF keeps each head's query and key rows in interleaved order, which is what mlx-lm calls traditional rotary
embedding, so no row is permuted.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.gguf_header import GgufHeader
from eredu.checkpoints.gguf_llama import FREQUENCIES, llama_config, llama_name
from eredu.contract.errors import CheckpointError
from eredu.mlx.adapter import LanguageModel, build_llama, evaluate_model, quantize_as_stored
from eredu.mlx.gguf_tensors import read_gguf_tensors


class FrequencyRope(nn.Module):
    """Rotary embedding with a file's own frequency factors (Llama 3.1 and later), interleaved.

    Args:
        base: `rope_theta`.
        factors: Divisors of the frequencies, shape (head_dim / 2,).
        scale: Factor on positions, below 1 where they are scaled linearly.
    """

    def __init__(self, base: float, factors: mx.array, scale: float = 1.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dims = 2 * factors.size
        self._scale = scale
        exponents = mx.arange(0, self._dims, 2, dtype=mx.float32) / self._dims
        self._freqs = base**exponents * factors.astype(mx.float32)

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """Rotate x of shape (1, heads, rows, head_dim) to positions offset, offset + 1 and so on."""
        return mx.fast.rope(
            x, self._dims, traditional=True, base=None, scale=self._scale, offset=offset, freqs=self._freqs
        )


def load_gguf(header: GgufHeader) -> tuple[LanguageModel, dict[str, Any]]:
    """Model and Hugging Face style config of a GGUF file whose header was read, weights evaluated.

    Raises `CheckpointError` for a damaged file, what `llama_config` refuses, types that cannot be decoded, and missing
    and unknown tensors.
    """
    config = llama_config(header)
    weights = read_gguf_tensors(header)
    factors = weights.pop(FREQUENCIES, None)
    renamed = {str(llama_name(header, name)): array for name, array in weights.items()}
    model = build_llama(config)
    try:
        quantize_as_stored(model, renamed)
        model.load_weights(list(renamed.items()))
    except ValueError as error:
        raise CheckpointError(f"the tensors of {header.path} do not fit its metadata: {error}") from error
    if factors is not None:
        _turn_by_factors(model, config, factors)
    model.eval()
    evaluate_model(model)
    return cast(LanguageModel, model), config


def _turn_by_factors(model: nn.Module, config: dict[str, Any], factors: mx.array) -> None:
    """Give every layer the file's own rotary frequencies."""
    scaling = config["rope_scaling"]
    rope = FrequencyRope(config["rope_theta"], factors, 1.0 if scaling is None else 1.0 / scaling["factor"])
    for layer in model.layers:
        layer.self_attn.rope = rope
