"""GGUF files of the llama family as mlx-lm models; quantised tensors stay quantised.

GGUF keeps each head's query and key rows in interleaved order, which is what mlx-lm calls traditional rotary
embedding, so no row is permuted. MLX unpacks Q4_0, Q4_1 and Q8_0 into its own quantised layout (32 weights a group)
and widens every other type to float16.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.errors import CheckpointError
from eredu.mlx.adapter import LanguageModel, build_llama

_GROUP_SIZE = 32
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
    """Rotary embedding with a file's own frequency factors (Llama 3.1 and later), interleaved."""

    def __init__(self, base: float, factors: mx.array) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dims = 2 * factors.size
        exponents = mx.arange(0, self._dims, 2, dtype=mx.float32) / self._dims
        self._freqs = base**exponents * factors.astype(mx.float32)

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """Rotate x of shape (1, heads, rows, head_dim) to positions offset, offset + 1 and so on."""
        return mx.fast.rope(x, self._dims, traditional=True, base=None, scale=1.0, offset=offset, freqs=self._freqs)


def load_gguf(path: Path) -> tuple[LanguageModel, dict[str, Any]]:
    """Model and Hugging Face style config of a GGUF file, weights evaluated.

    Raises `CheckpointError` for another architecture, an unsupported rotary scaling, or missing and unknown tensors.
    """
    try:
        weights, metadata = cast("tuple[dict[str, mx.array], dict[str, Any]]", mx.load(str(path), return_metadata=True))
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"MLX cannot read the GGUF file {path}: {error}") from error
    config = _config(path, metadata, weights)
    factors = weights.pop(_FREQUENCIES, None)
    renamed = {_rename(path, name): array for name, array in weights.items()}
    model = build_llama(config)
    _quantize(model, renamed)
    try:
        model.load_weights(list(renamed.items()))
    except ValueError as error:
        raise CheckpointError(f"the tensors of {path} do not fit its metadata: {error}") from error
    if factors is not None:
        for layer in model.layers:
            layer.self_attn.rope = FrequencyRope(config["rope_theta"], factors)
    model.eval()
    mx.eval(model.parameters())
    return cast(LanguageModel, model), config


def _config(path: Path, metadata: dict[str, Any], weights: dict[str, mx.array]) -> dict[str, Any]:
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise CheckpointError(
            f"{path} holds architecture {architecture!r}; GGUF targets of the llama family are supported. "
            "Load other families from their SafeTensors directory"
        )

    def value(key: str, default: float | None = None) -> Any:
        found = metadata.get(f"llama.{key}", default)
        if found is None:
            raise CheckpointError(f"{path} lacks the metadata key 'llama.{key}'; the file is incomplete")
        return found.item() if isinstance(found, mx.array) else found

    heads = int(value("attention.head_count"))
    hidden = int(value("embedding_length"))
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling not in {"none", "linear"}:
        raise CheckpointError(f"{path} scales its rotary positions by {scaling!r}; 'none' and 'linear' are supported")
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": int(value("block_count")),
        "intermediate_size": int(value("feed_forward_length")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(value("attention.head_count_kv", heads)),
        "head_dim": int(value("attention.key_length", value("rope.dimension_count", hidden // heads))),
        "rms_norm_eps": float(value("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(value("rope.freq_base", 10000.0)),
        "rope_traditional": True,
        "rope_scaling": {"type": "linear", "factor": float(value("rope.scaling.factor"))}
        if scaling == "linear"
        else None,
        "vocab_size": int(weights["token_embd.weight"].shape[0]) if "token_embd.weight" in weights else 0,
        "max_position_embeddings": int(value("context_length")),
        "tie_word_embeddings": "output.weight" not in weights,
        "attention_bias": "blk.0.attn_q.bias" in weights,
    }


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


def _quantize(model: nn.Module, weights: dict[str, mx.array]) -> None:
    """Turn the layers whose tensors came quantised into MLX's quantised layers."""

    def settings(name: str, module: nn.Module) -> bool | dict[str, int]:
        if f"{name}.scales" not in weights or not hasattr(module, "to_quantized"):
            return False
        columns = weights[f"{name}.scales"].shape[-1] * _GROUP_SIZE
        return {"group_size": _GROUP_SIZE, "bits": weights[f"{name}.weight"].shape[-1] * 32 // columns}

    if any(name.endswith(".scales") for name in weights):
        nn.quantize(model, group_size=_GROUP_SIZE, bits=4, class_predicate=settings)
