"""MiMo-7B: Qwen2's decoder, and a head under `model.mtp_layers` that reads the hidden state first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.member import COMMON, CONTEXT, VOCABULARY, HeadDecoder, ZooMember

HIDDEN, LAYERS, HEADS, KEYS, WIDTH, MLP = 64, 3, 4, 2, 16, 96
SHARPNESS = 2.5
"""Gain of queries and keys: attention that averages everything soon repeats one token for good."""

CONFIG: Mapping[str, Any] = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    **COMMON,
    "attention_bias": True,
    "attention_dropout": 0.0,
    "auto_map": {
        "AutoConfig": "configuration_mimo.MiMoConfig",
        "AutoModel": "modeling_mimo.MiMoForCausalLM",
        "AutoModelForCausalLM": "modeling_mimo.MiMoForCausalLM",
    },
    "head_dim": WIDTH,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": MLP,
    "max_window_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KEYS,
    "num_nextn_predict_layers": 1,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 640000,
    "sliding_window": CONTEXT,
    "transformers_version": "4.40.1",
    "use_cache": True,
    "use_mrope": False,
    "use_sliding_window": False,
}


def _layer(draw: Drawer, prefix: str) -> Tensors:
    widths = {"q_proj": HEADS * WIDTH, "k_proj": KEYS * WIDTH, "v_proj": KEYS * WIDTH}
    attention = f"{prefix}self_attn."
    tensors = draw.linears(attention, {name: (width, HIDDEN) for name, width in widths.items()}, gain=SHARPNESS)
    tensors |= draw.biases(attention, widths)
    tensors |= draw.linears(attention, {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=1.5)
    tensors |= draw.gated_mlp(f"{prefix}mlp.", hidden=HIDDEN, inner=MLP)
    return tensors | draw.norms(prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})


def mimo() -> ZooMember:
    """MiMo-7B with its one head."""
    draw = Drawer(11)
    body = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer in range(LAYERS):
        body |= _layer(draw, f"model.layers.{layer}.")
    prefix = "model.mtp_layers.0."
    norms = {"token_layernorm": HIDDEN, "hidden_layernorm": HIDDEN, "final_layernorm": HIDDEN}
    head = draw.norms(prefix, norms) | draw.linears(prefix, {"input_proj": (HIDDEN, 2 * HIDDEN)}, gain=1.5)
    return ZooMember(
        name="mimo", config=CONFIG, body=body, head=head | _layer(draw, prefix), heads=1, head_decoder=_head_decoder
    )


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:
    prefix = f"model.mtp_layers.{stage}."
    fusion = (f"{prefix}token_layernorm.weight", f"{prefix}hidden_layernorm.weight", f"{prefix}input_proj.weight")
    outside = {f"{prefix}final_layernorm.weight": "model.norm.weight"}
    body = {
        outside.get(name, name.replace(prefix, "model.layers.0.")): array
        for name, array in member.head.items()
        if name.startswith(prefix) and name not in fusion
    }
    body |= {name: member.body[name] for name in ("model.embed_tokens.weight", "lm_head.weight")}
    return HeadDecoder(fusion, body, {"num_hidden_layers": 1, "num_nextn_predict_layers": 0}, hidden_first=True)


PLACE = 5
MEMBERS = {"mimo": mimo}
