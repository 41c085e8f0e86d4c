"""GGUF files of the llama family as mlx-lm models; quantised tensors stay quantised.

GGUF keeps each head's query and key rows in interleaved order, which is what mlx-lm calls traditional rotary
embedding, so no row is permuted. MLX unpacks Q4_0, Q4_1 and Q8_0 into its own quantised layout (32 weights a group)
and widens other types to float16. The header is read and checked first: of a type that MLX does not know it drops the
tensor, and Q4_K it decodes wrongly.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.gguf_header import GgufHeader
from eredu.contract.errors import CheckpointError
from eredu.mlx.adapter import LanguageModel, build_llama, evaluate_model, quantize_as_stored

READABLE_TYPES = frozenset({"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q6_K"})
"""GGML types that MLX's reader decodes to what the reference decoder gives; a test compares them."""

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_FREQUENCIES = "rope_freqs.weight"


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

    Raises `CheckpointError` for a damaged file, another architecture, types and rotary scalings that cannot be read
    exactly, and missing and unknown tensors.
    """
    path, config = header.path, _config(header)
    _require_readable(header)
    try:
        weights = cast("dict[str, mx.array]", mx.load(str(path), format="gguf"))
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"MLX cannot read the GGUF file {path}: {error}") from error
    factors = weights.pop(_FREQUENCIES, None)
    renamed = {_rename(path, name): array for name, array in weights.items()}
    model = build_llama(config)
    try:
        quantize_as_stored(model, renamed)
        model.load_weights(list(renamed.items()))
    except ValueError as error:
        raise CheckpointError(f"the tensors of {path} do not fit its metadata: {error}") from error
    if factors is not None:
        _turn_by_factors(model, config, factors)
    model.eval()
    evaluate_model(model)
    return cast(LanguageModel, model), config


def _config(header: GgufHeader) -> dict[str, Any]:
    """The metadata under Hugging Face's keys."""
    path, metadata, architecture = header.path, header.metadata, header.architecture
    if architecture != "llama":
        raise CheckpointError(
            f"{path} holds architecture {architecture!r}; GGUF targets of the llama family are supported. "
            "Load other families from their SafeTensors directory"
        )

    def number(key: str, default: float | None = None) -> Any:
        found = metadata.get(f"llama.{key}", default)
        if found is None:
            raise CheckpointError(f"{path} lacks the metadata key 'llama.{key}'; the file is incomplete")
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < math.inf:
            raise CheckpointError(f"{path} gives 'llama.{key}' as {found!r}; expected one positive number")
        return found

    heads, hidden = int(number("attention.head_count")), int(number("embedding_length"))
    head_dim = int(number("attention.key_length", max(1, hidden // heads)))
    rotated = int(number("rope.dimension_count", head_dim))
    if rotated != head_dim:
        raise CheckpointError(
            f"{path} rotates {rotated} of {head_dim} dimensions of a head; the llama family rotates all of them"
        )
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling not in {"none", "linear"}:
        raise CheckpointError(f"{path} scales its rotary positions by {scaling!r}; 'none' and 'linear' are supported")
    tensors = {tensor.name: tensor.shape for tensor in header.tensors}
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": int(number("block_count")),
        "intermediate_size": int(number("feed_forward_length")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(number("attention.head_count_kv", heads)),
        "head_dim": head_dim,
        "rms_norm_eps": float(number("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(number("rope.freq_base", 10000.0)),
        "rope_traditional": True,
        "rope_scaling": {"type": "linear", "factor": float(number("rope.scaling.factor"))}
        if scaling == "linear"
        else None,
        "vocab_size": _vocabulary_size(path, tensors),
        "max_position_embeddings": int(number("context_length")),
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in tensors,
    }


def _vocabulary_size(path: Path, tensors: dict[str, tuple[int, ...]]) -> int:
    embedding = tensors.get("token_embd.weight", ())
    if len(embedding) != 2:
        raise CheckpointError(f"{path} has no matrix token_embd.weight; a language model begins with one")
    return embedding[0]


def _require_readable(header: GgufHeader) -> None:
    for tensor in header.tensors:
        if tensor.dtype not in READABLE_TYPES:
            raise CheckpointError(
                f"{header.path} stores {tensor.name!r} as {tensor.dtype}, which MLX does not decode exactly; take a "
                f"file of {', '.join(sorted(READABLE_TYPES))}, or the SafeTensors directory"
            )


def _turn_by_factors(model: nn.Module, config: dict[str, Any], factors: mx.array) -> None:
    """Give every layer the file's own rotary frequencies."""
    if factors.shape != (config["head_dim"] // 2,):
        raise CheckpointError(
            f"{_FREQUENCIES} has shape {factors.shape}; expected one factor for each of {config['head_dim'] // 2} pairs"
        )
    scaling = config["rope_scaling"]
    rope = FrequencyRope(config["rope_theta"], factors, 1.0 if scaling is None else 1.0 / scaling["factor"])
    for layer in model.layers:
        layer.self_attn.rope = rope


def _rename(path: Path, name: str) -> str:
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(\w+)", name)
    if block and block[2] in _BLOCK:
        return f"model.layers.{block[1]}.{_BLOCK[block[2]]}.{block[3]}"
    top, _, kind = name.partition(".")
    if top in _TOP:
        return f"{_TOP[top]}.{kind}"
    raise CheckpointError(
        f"{path} holds the tensor {name!r}, which no llama model has; its architecture is mislabelled"
    )
