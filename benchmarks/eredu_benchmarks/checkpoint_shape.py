"""Sizes of a dense Qwen3.5-type checkpoint, and the tensors that they imply, by their published names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Named = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class QwenShape:
    """A shape.

    Attributes:
        vocabulary: Rows of embedding and output projection, which are not tied.
        hidden: Hidden size.
        layers: Layers, every fourth with full attention.
        mlp: Inner size of the MLP.
        heads: Query heads of full attention.
        keys: Key and value heads of it.
        width: Size of each of those heads.
        delta_keys: Key heads of the delta rule.
        delta_values: Value heads of it.
        delta_width: Size of each of those heads.
        kernel: Length of its convolution.
        context: Positions.
    """

    vocabulary: int
    hidden: int
    layers: int
    mlp: int
    heads: int
    keys: int
    width: int
    delta_keys: int
    delta_values: int
    delta_width: int
    kernel: int = 4
    context: int = 32_768

    def config(self) -> dict[str, Any]:
        """What `config.json` says."""
        text = {
            "model_type": "qwen3_5_text",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.mlp,
            "num_hidden_layers": self.layers,
            "full_attention_interval": 4,
            "layer_types": ["full_attention" if self._is_full(i) else "linear_attention" for i in range(self.layers)],
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.keys,
            "head_dim": self.width,
            "linear_num_key_heads": self.delta_keys,
            "linear_num_value_heads": self.delta_values,
            "linear_key_head_dim": self.delta_width,
            "linear_value_head_dim": self.delta_width,
            "linear_conv_kernel_dim": self.kernel,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "attention_bias": False,
            "attn_output_gate": True,
            "max_position_embeddings": self.context,
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "tie_word_embeddings": False,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000_000.0,
                "partial_rotary_factor": 0.25,
                "mrope_interleaved": True,
                "mrope_section": [11, 11, 10] if self.width == 256 else [3, 3, 2],
            },
            "eos_token_id": 2,
            "dtype": "bfloat16",
        }
        wiring = {"hidden": "before-norm", "first": "embedding", "chain": "before-norm"}
        return {
            "architectures": ["Qwen3_5ForCausalLM"],
            "model_type": "qwen3_5",
            "text_config": text,
            "tie_word_embeddings": False,
            "eos_token_id": 2,
            "dtype": "bfloat16",
            "max_proposals": 8,
            "wiring": wiring,
        }

    def tensors(self) -> Iterator[Named]:
        """Every tensor with its shape."""
        body = "model.language_model."
        yield f"{body}embed_tokens.weight", (self.vocabulary, self.hidden)
        for i in range(self.layers):
            yield from self._layer(f"{body}layers.{i}.", full=self._is_full(i))
        yield f"{body}norm.weight", (self.hidden,)
        yield "lm_head.weight", (self.vocabulary, self.hidden)
        yield "mtp.fc.weight", (self.hidden, 2 * self.hidden)
        yield from self._layer("mtp.layers.0.", full=True)
        for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
            yield f"mtp.{name}.weight", (self.hidden,)

    def _is_full(self, layer: int) -> bool:
        return layer % 4 == 3

    def _layer(self, prefix: str, *, full: bool) -> Iterator[Named]:
        yield f"{prefix}input_layernorm.weight", (self.hidden,)
        yield f"{prefix}post_attention_layernorm.weight", (self.hidden,)
        yield f"{prefix}mlp.gate_proj.weight", (self.mlp, self.hidden)
        yield f"{prefix}mlp.up_proj.weight", (self.mlp, self.hidden)
        yield f"{prefix}mlp.down_proj.weight", (self.hidden, self.mlp)
        yield from self._attention(f"{prefix}self_attn.") if full else self._delta(f"{prefix}linear_attn.")

    def _attention(self, prefix: str) -> Iterator[Named]:
        yield f"{prefix}q_proj.weight", (2 * self.heads * self.width, self.hidden)
        yield f"{prefix}k_proj.weight", (self.keys * self.width, self.hidden)
        yield f"{prefix}v_proj.weight", (self.keys * self.width, self.hidden)
        yield f"{prefix}o_proj.weight", (self.hidden, self.heads * self.width)
        yield f"{prefix}q_norm.weight", (self.width,)
        yield f"{prefix}k_norm.weight", (self.width,)

    def _delta(self, prefix: str) -> Iterator[Named]:
        keys, values = self.delta_keys * self.delta_width, self.delta_values * self.delta_width
        yield f"{prefix}in_proj_qkv.weight", (2 * keys + values, self.hidden)
        yield f"{prefix}in_proj_z.weight", (values, self.hidden)
        yield f"{prefix}in_proj_a.weight", (self.delta_values, self.hidden)
        yield f"{prefix}in_proj_b.weight", (self.delta_values, self.hidden)
        yield f"{prefix}conv1d.weight", (2 * keys + values, 1, self.kernel)
        yield f"{prefix}A_log", (self.delta_values,)
        yield f"{prefix}dt_bias", (self.delta_values,)
        yield f"{prefix}norm.weight", (self.delta_width,)
        yield f"{prefix}out_proj.weight", (self.hidden, values)


SHAPES = {
    "9b": QwenShape(
        vocabulary=248_320,
        hidden=4096,
        layers=32,
        mlp=12_288,
        heads=16,
        keys=4,
        width=256,
        delta_keys=16,
        delta_values=32,
        delta_width=128,
    ),
    "tiny": QwenShape(
        vocabulary=4352,
        hidden=128,
        layers=4,
        mlp=256,
        heads=4,
        keys=2,
        width=64,
        delta_keys=2,
        delta_values=4,
        delta_width=32,
    ),
}
"""Published shapes by name (9b: nine thousand million parameters), and one to try the writer with."""
