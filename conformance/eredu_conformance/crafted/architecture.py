"""The ordinary decoder that a crafted checkpoint inhabits: its dimensions, its config.json and its tensors, all silent.

A silent decoder has zero projections and unit norms: attention and MLP add nothing to the residual, so whatever a
crafted law needs is written into a few tensors and the rest stays provably without effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[np.float64]
"""A tensor while it is being composed; it becomes float32 when it is written."""

NORM_EPSILON = 1e-6
"""rms_norm_eps of every crafted checkpoint."""


class Architecture(StrEnum):
    """The `model_type` of the checkpoint."""

    LLAMA = "llama"
    QWEN3 = "qwen3"
    """Llama with an RMS norm on each query and key head."""


_CLASSES = {Architecture.LLAMA: "LlamaForCausalLM", Architecture.QWEN3: "Qwen3ForCausalLM"}


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Dimensions of a llama-like decoder with one layer that works.

    Attributes:
        architecture: The `model_type`.
        vocabulary: Token ids, 0 to `vocabulary - 1`.
        hidden: Width of the residual.
        heads: Query heads; they share one key and value head.
        head_dim: Width of a head, even.
        intermediate: Width of the MLP.
        rope_theta: Base of the rotary frequencies.
        context_limit: `max_position_embeddings`, in tokens.
        window: Rows that layer 0 attends to (the current one counted), or None for all.
        bos: Id that begins every prompt, or None.
        eos: Id that ends an output, or None.
    """

    architecture: Architecture
    vocabulary: int
    hidden: int
    heads: int = 1
    head_dim: int = 4
    intermediate: int = 4
    rope_theta: float = 10000.0
    context_limit: int = 64
    window: int | None = None
    bos: int | None = None
    eos: int | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.architecture is not Architecture.LLAMA:
            raise ValueError(
                f"a sliding window was asked of {self.architecture.value}, whose mlx-lm model has none; use llama"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim was {self.head_dim}; rotary embeddings turn pairs, so it must be even")

    @property
    def layers(self) -> int:
        """1, and with a window one more: mlx-lm's llama wants a layer of full attention, which then stays silent."""
        return 1 if self.window is None else 2

    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        config: dict[str, Any] = {
            "architectures": [_CLASSES[self.architecture]],
            "model_type": self.architecture.value,
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": 1,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": NORM_EPSILON,
            "rope_theta": self.rope_theta,
            "max_position_embeddings": self.context_limit,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "torch_dtype": "float32",
        }
        if self.window is not None:
            config["layer_types"] = ["sliding_attention", "full_attention"]
            config["sliding_window"] = self.window
        if self.bos is not None:
            config["bos_token_id"] = self.bos
        if self.eos is not None:
            config["eos_token_id"] = self.eos
        return config

    def silent_tensors(self) -> dict[str, Tensor]:
        """Every tensor of the checkpoint, by its Hugging Face name: projections zero, norms one."""
        tensors = {
            "model.embed_tokens.weight": np.zeros((self.vocabulary, self.hidden)),
            "model.norm.weight": np.ones(self.hidden),
            "lm_head.weight": np.zeros((self.vocabulary, self.hidden)),
        }
        for layer in range(self.layers):
            tensors |= self._silent_layer(f"model.layers.{layer}")
        return tensors

    def _silent_layer(self, prefix: str) -> dict[str, Tensor]:
        queries = self.heads * self.head_dim
        layer = {
            "input_layernorm.weight": np.ones(self.hidden),
            "self_attn.q_proj.weight": np.zeros((queries, self.hidden)),
            "self_attn.k_proj.weight": np.zeros((self.head_dim, self.hidden)),
            "self_attn.v_proj.weight": np.zeros((self.head_dim, self.hidden)),
            "self_attn.o_proj.weight": np.zeros((self.hidden, queries)),
            "post_attention_layernorm.weight": np.ones(self.hidden),
            "mlp.gate_proj.weight": np.zeros((self.intermediate, self.hidden)),
            "mlp.up_proj.weight": np.zeros((self.intermediate, self.hidden)),
            "mlp.down_proj.weight": np.zeros((self.hidden, self.intermediate)),
        }
        if self.architecture is Architecture.QWEN3:
            layer["self_attn.q_norm.weight"] = np.ones(self.head_dim)
            layer["self_attn.k_norm.weight"] = np.ones(self.head_dim)
        return {f"{prefix}.{name}": tensor for name, tensor in layer.items()}


def norm_gain(decoder: Decoder, squares: float) -> float:
    """Factor by which RMS norm multiplies a residual whose squared entries sum to `squares`."""
    return float(1.0 / np.sqrt(squares / decoder.hidden + NORM_EPSILON))
