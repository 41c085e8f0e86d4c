"""llama and Qwen3: full attention in every layer, no prediction heads."""

from __future__ import annotations

from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.eight_bits import QWEN, ROWS
from eredu_conformance.zoo.member import COMMON, VOCABULARY, ZooMember

HIDDEN, LAYERS, HEADS, KEYS, WIDTH, MLP = 64, 3, 4, 2, 16, 96
SHARPNESS = 2.5
"""Gain of queries and keys: attention that averages everything soon repeats one token for good."""


def _config(model_type: str, name: str) -> dict[str, Any]:
    return {
        "architectures": [name],
        "model_type": model_type,
        **COMMON,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "intermediate_size": MLP,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEYS,
        "head_dim": WIDTH,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
    }


def _layer(draw: Drawer, prefix: str, *, normed_heads: bool) -> Tensors:
    tensors = draw.linears(
        f"{prefix}self_attn.",
        {"q_proj": (HEADS * WIDTH, HIDDEN), "k_proj": (KEYS * WIDTH, HIDDEN), "v_proj": (KEYS * WIDTH, HIDDEN)},
        gain=SHARPNESS,
    )
    tensors |= draw.linears(f"{prefix}self_attn.", {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=1.5)
    tensors |= draw.gated_mlp(f"{prefix}mlp.", hidden=HIDDEN, inner=MLP)
    tensors |= draw.norms(prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})
    if normed_heads:
        tensors |= draw.norms(f"{prefix}self_attn.", {"q_norm": WIDTH, "k_norm": WIDTH}, centre=SHARPNESS)
    return tensors


def _body(draw: Drawer, *, normed_heads: bool) -> Tensors:
    tensors = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer in range(LAYERS):
        tensors |= _layer(draw, f"model.layers.{layer}.", normed_heads=normed_heads)
    return tensors


def llama() -> ZooMember:
    """llama: full attention everywhere."""
    body = _body(Drawer(1), normed_heads=False)
    return ZooMember(name="llama", config=_config("llama", "LlamaForCausalLM"), body=body, head={}, heads=0, fp8=ROWS)


def qwen3() -> ZooMember:
    """Qwen3: query and key heads are normed."""
    body = _body(Drawer(2), normed_heads=True)
    return ZooMember(name="qwen3", config=_config("qwen3", "Qwen3ForCausalLM"), body=body, head={}, heads=0, fp8=QWEN)


PLACE = 0
MEMBERS = {"llama": llama, "qwen3": qwen3}
