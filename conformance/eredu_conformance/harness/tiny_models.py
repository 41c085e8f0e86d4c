"""Tiny decoders with random float32 weights as Hugging Face directories, and noisy copies of them as assistants."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class TinyDecoder:
    """A llama-like decoder of random weights.

    Attributes:
        model_type: `llama` or `qwen3`, which norms each query and key head.
        vocabulary: Logit rows.
        hidden: Width of the residual.
        layers: Decoder layers.
        heads: Query heads.
        kv_heads: Key and value heads.
        intermediate: Width of the MLP.
        context: `max_position_embeddings`, in tokens.
        window: Rows that every other layer (from the first) attends to; None for full attention everywhere.
        tied: Whether the output projection is the embedding.
        bias: Whether the attention's projections have biases.
        seed: Of the weights.
        noise: Fresh noise on every matrix, relative: a noisy copy agrees with the original often, not always.
        sharpness: Standard deviation of the logits, roughly.
    """

    model_type: str = "llama"
    vocabulary: int = 48
    hidden: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    intermediate: int = 48
    context: int = 512
    window: int | None = None
    tied: bool = False
    bias: bool = False
    seed: int = 0
    noise: float = 0.0
    sharpness: float = 2.5

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    def noisy(self, noise: float) -> TinyDecoder:
        """The same decoder with noise on its weights."""
        return replace(self, noise=noise)

    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        config: dict[str, Any] = {
            "model_type": self.model_type,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.context,
            "tie_word_embeddings": self.tied,
            "attention_bias": self.bias,
        }
        if self.window is not None:
            kinds = ["sliding_attention", "full_attention"]
            config["layer_types"] = [kinds[layer % 2] for layer in range(self.layers)]
            config["sliding_window"] = self.window
        return config

    def weights(self) -> Weights:
        """Tensors by Hugging Face name."""
        generator, disturbance = np.random.default_rng(self.seed), np.random.default_rng(self.seed + 7919)
        shapes = self._shapes()
        weights: Weights = {}
        for name, (shape, scale) in shapes.items():
            if name.endswith("norm.weight"):
                weights[name] = np.ones(shape, dtype=np.float32)
                continue
            drawn = generator.normal(size=shape) + self.noise * disturbance.normal(size=shape)
            weights[name] = (scale * drawn / np.sqrt(1 + self.noise**2)).astype(np.float32)
        return weights

    def _shapes(self) -> dict[str, tuple[tuple[int, ...], float]]:
        inner, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        unit = self.hidden**-0.5
        shapes: dict[str, tuple[tuple[int, ...], float]] = {
            "model.embed_tokens.weight": ((self.vocabulary, self.hidden), self.sharpness * unit if self.tied else 1.0),
            "model.norm.weight": ((self.hidden,), 1.0),
        }
        if not self.tied:
            shapes["lm_head.weight"] = ((self.vocabulary, self.hidden), self.sharpness * unit)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            projections = {
                "self_attn.q_proj": (inner, self.hidden),
                "self_attn.k_proj": (keys, self.hidden),
                "self_attn.v_proj": (keys, self.hidden),
                "self_attn.o_proj": (self.hidden, inner),
                "mlp.gate_proj": (self.intermediate, self.hidden),
                "mlp.up_proj": (self.intermediate, self.hidden),
                "mlp.down_proj": (self.hidden, self.intermediate),
            }
            for name, shape in projections.items():
                shapes[f"{prefix}{name}.weight"] = (shape, 1.5 * shape[1] ** -0.5)
                if self.bias and name.startswith("self_attn"):
                    shapes[f"{prefix}{name}.bias"] = (shape[:1], 0.2)
            shapes[f"{prefix}input_layernorm.weight"] = ((self.hidden,), 1.0)
            shapes[f"{prefix}post_attention_layernorm.weight"] = ((self.hidden,), 1.0)
            if self.model_type == "qwen3":
                shapes[f"{prefix}self_attn.q_norm.weight"] = ((self.head_dim,), 1.0)
                shapes[f"{prefix}self_attn.k_norm.weight"] = ((self.head_dim,), 1.0)
        return shapes

    def write(self, directory: Path, *, weights: Weights | None = None, config: dict[str, Any] | None = None) -> Path:
        """Write the directory; `weights` and `config` replace what the description gives."""
        directory.mkdir(parents=True, exist_ok=True)
        save_file(self.weights() if weights is None else weights, directory / "model.safetensors")
        (directory / "config.json").write_text(json.dumps(self.config() | (config or {})), encoding="utf-8")
        return directory
