"""ERNIE 4.5: experts behind one dense layer, chosen by scores with biases, and a dense head under names of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.member import COMMON, VOCABULARY, HeadDecoder, ZooMember

HIDDEN, LAYERS, HEADS, KEYS, MLP = 64, 3, 4, 2, 96
EXPERTS, CHOSEN, EXPERT_MLP = 8, 2, 32
WIDTH = HIDDEN // HEADS
SHARPNESS = 2.5
"""Gain of queries and keys: attention that averages everything soon repeats one token for good."""
FLATTER = 0.4
"""Of the embedding, which projects too: sharper laws of target and head would hardly overlap."""
FUSION = ("mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj")

CONFIG: Mapping[str, Any] = {
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "model_type": "ernie4_5_moe",
    **{key: value for key, value in COMMON.items() if key != "attention_bias"},
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "moe_capacity": [EXPERTS, EXPERTS, EXPERTS],
    "moe_gate": "topk",
    "moe_intermediate_size": EXPERT_MLP,
    "moe_k": CHOSEN,
    "moe_layer_end_index": LAYERS - 1,
    "moe_layer_interval": 1,
    "moe_layer_start_index": 1,
    "moe_num_experts": EXPERTS,
    "moe_num_shared_experts": 2,
    "moe_use_aux_free": True,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KEYS,
    "num_nextn_predict_layers": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "use_bias": False,
    "use_cache": True,
}


def _experts(draw: Drawer, prefix: str) -> Tensors:
    bias = f"{prefix}moe_statics.e_score_correction_bias"
    tensors = draw.linears(prefix, {"gate": (EXPERTS, HIDDEN)}, gain=1.5)
    tensors[bias] = draw.between(bias, -0.2, 0.2, 1, EXPERTS)
    tensors |= draw.gated_mlp(f"{prefix}shared_experts.", hidden=HIDDEN, inner=2 * EXPERT_MLP)
    for expert in range(EXPERTS):
        tensors |= draw.gated_mlp(f"{prefix}experts.{expert}.", hidden=HIDDEN, inner=EXPERT_MLP)
    return tensors


def _layer(draw: Drawer, prefix: str, *, dense: bool) -> Tensors:
    attention = f"{prefix}self_attn."
    shapes = {"q_proj": (HEADS * WIDTH, HIDDEN), "k_proj": (KEYS * WIDTH, HIDDEN), "v_proj": (KEYS * WIDTH, HIDDEN)}
    tensors = draw.linears(attention, shapes, gain=SHARPNESS)
    tensors |= draw.linears(attention, {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=1.5)
    tensors |= draw.norms(prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})
    mlp = f"{prefix}mlp."
    return tensors | (draw.gated_mlp(mlp, hidden=HIDDEN, inner=MLP) if dense else _experts(draw, mlp))


def _head(draw: Drawer, number: int) -> Tensors:
    norms = {f"{name}.{number}": HIDDEN for name in FUSION[:2]}
    tensors = draw.norms("model.", norms)
    tensors |= draw.linears("model.", {f"{FUSION[2]}.{number}": (HIDDEN, 2 * HIDDEN)}, gain=1.5)
    return tensors | _layer(draw, f"model.mtp_block.{number}.", dense=True)


def ernie() -> ZooMember:
    """ERNIE 4.5 of experts with its one head; the output projection is the embedding, as in the releases."""
    draw = Drawer(12)
    body = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    del body["lm_head.weight"]
    body["model.embed_tokens.weight"] *= np.float32(FLATTER)
    for layer in range(LAYERS):
        body |= _layer(draw, f"model.layers.{layer}.", dense=layer < 1)
    return ZooMember(
        name="ernie-4.5", config=CONFIG, body=body, head=_head(draw, 0), heads=1, head_decoder=_head_decoder
    )


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:
    block = f"model.mtp_block.{stage}."
    embedding, hidden, projection = (f"model.{part}.{stage}.weight" for part in FUSION)
    body = {
        name.replace(block, "model.layers.0."): array for name, array in member.head.items() if name.startswith(block)
    }
    body |= {name: member.body[name] for name in ("model.embed_tokens.weight", "model.norm.weight")}
    changed = {"num_hidden_layers": 1, "moe_layer_end_index": 0, "num_nextn_predict_layers": 0}
    return HeadDecoder((embedding, hidden, projection), body, changed)


PLACE = 6
MEMBERS = {"ernie-4.5": ernie}
