"""Qwen3-Next and Qwen3.5, dense and mixture of experts: gated delta layers, gated attention in every other one.

Norm weights are stored as offsets from one, as published; the gated norm inside a delta layer is not. Configs have
the keys of the releases (Qwen3-Next-80B-A3B-Instruct, Qwen3.5-0.8B and -35B-A3B) but those of the vision tower and the
ids of special tokens: Qwen3-Next states no count of its heads, and lists no layer types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.eight_bits import QWEN
from eredu_conformance.zoo.member import COMMON, VOCABULARY, HeadDecoder, ZooMember

HIDDEN, LAYERS, INTERVAL = 64, 4, 2
HEADS, KEYS, WIDTH = 4, 2, 16
DELTA_KEYS, DELTA_VALUES, DELTA_WIDTH, KERNEL = 2, 4, 16, 4
MLP, EXPERTS, CHOSEN, EXPERT_MLP = 96, 8, 2, 32


def _decoder(model_type: str, *, moe: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
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
        "full_attention_interval": INTERVAL,
        "linear_conv_kernel_dim": KERNEL,
        "linear_key_head_dim": DELTA_WIDTH,
        "linear_value_head_dim": DELTA_WIDTH,
        "linear_num_key_heads": DELTA_KEYS,
        "linear_num_value_heads": DELTA_VALUES,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
    }
    if moe:
        config |= {
            "num_experts": EXPERTS,
            "num_experts_per_tok": CHOSEN,
            "moe_intermediate_size": EXPERT_MLP,
            "shared_expert_intermediate_size": EXPERT_MLP,
            "output_router_logits": False,
            "router_aux_loss_coef": 0.001,
        }
    return config


def _norms(draw: Drawer, prefix: str, sizes: dict[str, int]) -> Tensors:
    """Norm weights as offsets from one."""
    return draw.norms(prefix, sizes, centre=0.0)


def _attention(draw: Drawer, prefix: str) -> Tensors:
    shapes = {"q_proj": (2 * HEADS * WIDTH, HIDDEN), "k_proj": (KEYS * WIDTH, HIDDEN), "v_proj": (KEYS * WIDTH, HIDDEN)}
    tensors = draw.linears(prefix, shapes, gain=1.5) | draw.linears(
        prefix, {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=3.0
    )
    return tensors | _norms(draw, prefix, {"q_norm": WIDTH, "k_norm": WIDTH})


def _delta(draw: Drawer, prefix: str, *, joint: bool) -> Tensors:
    keys, values = DELTA_KEYS * DELTA_WIDTH, DELTA_VALUES * DELTA_WIDTH
    channels = 2 * keys + values
    if joint:
        shapes = {"in_proj_qkvz": (channels + values, HIDDEN), "in_proj_ba": (2 * DELTA_VALUES, HIDDEN)}
    else:
        shapes = {
            "in_proj_qkv": (channels, HIDDEN),
            "in_proj_z": (values, HIDDEN),
            "in_proj_b": (DELTA_VALUES, HIDDEN),
            "in_proj_a": (DELTA_VALUES, HIDDEN),
        }
    tensors = draw.linears(prefix, shapes, gain=1.5) | draw.linears(prefix, {"out_proj": (HIDDEN, values)}, gain=1.5)
    return tensors | {
        f"{prefix}conv1d.weight": draw.normal(f"{prefix}conv1d.weight", channels, 1, KERNEL, gain=1.5),
        f"{prefix}dt_bias": draw.between(f"{prefix}dt_bias", -2.0, 0.5, DELTA_VALUES),
        f"{prefix}A_log": np.log(draw.between(f"{prefix}A_log", 0.05, 1.0, DELTA_VALUES)),
        f"{prefix}norm.weight": draw.near(f"{prefix}norm.weight", 1.0, DELTA_WIDTH),
    }


def _experts(draw: Drawer, prefix: str, *, packed: bool) -> Tensors:
    """Router, shared expert, and the experts: packed as in Qwen3.5, or one by one as in Qwen3-Next."""
    tensors = draw.linears(prefix, {"gate": (EXPERTS, HIDDEN), "shared_expert_gate": (1, HIDDEN)}, gain=1.5)
    tensors |= draw.gated_mlp(f"{prefix}shared_expert.", hidden=HIDDEN, inner=EXPERT_MLP)
    if not packed:
        for expert in range(EXPERTS):
            tensors |= draw.gated_mlp(f"{prefix}experts.{expert}.", hidden=HIDDEN, inner=EXPERT_MLP)
        return tensors
    up, down = f"{prefix}experts.gate_up_proj", f"{prefix}experts.down_proj"
    tensors[up] = draw.normal(up, EXPERTS, 2 * EXPERT_MLP, HIDDEN, gain=1.5)
    tensors[down] = draw.normal(down, EXPERTS, HIDDEN, EXPERT_MLP, gain=1.5)
    return tensors


def _layer(draw: Drawer, prefix: str, *, full: bool, moe: bool, next_layout: bool) -> Tensors:
    tensors = _norms(draw, prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})
    if full:
        tensors |= _attention(draw, f"{prefix}self_attn.")
    else:
        tensors |= _delta(draw, f"{prefix}linear_attn.", joint=next_layout)
    if moe:
        return tensors | _experts(draw, f"{prefix}mlp.", packed=not next_layout)
    return tensors | draw.gated_mlp(f"{prefix}mlp.", hidden=HIDDEN, inner=MLP)


def _body(draw: Drawer, prefix: str, *, moe: bool, next_layout: bool) -> Tensors:
    tensors = draw.outer(f"{prefix}embed_tokens", f"{prefix}norm", vocabulary=VOCABULARY, hidden=HIDDEN, centre=0.0)
    for i in range(LAYERS):
        tensors |= _layer(
            draw, f"{prefix}layers.{i}.", full=i % INTERVAL == INTERVAL - 1, moe=moe, next_layout=next_layout
        )
    return tensors


def _head(draw: Drawer, *, moe: bool, next_layout: bool) -> Tensors:
    norms = dict.fromkeys(("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"), HIDDEN)
    return {
        **draw.linears("mtp.", {"fc": (HIDDEN, 2 * HIDDEN)}, gain=1.5),
        **_norms(draw, "mtp.", norms),
        **_layer(draw, "mtp.layers.0.", full=True, moe=moe, next_layout=next_layout),
    }


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:  # noqa: ARG001 (there is one)
    prefix = "model.language_model." if "text_config" in member.config else "model."
    body = {
        name.replace("mtp.", prefix): array
        for name, array in member.head.items()
        if name.startswith("mtp.layers.") or name == "mtp.norm.weight"
    }
    body |= {name: array for name, array in member.body.items() if "embed_tokens" in name or "lm_head" in name}
    changed = {"num_hidden_layers": 1, "layer_types": ["full_attention"], "full_attention_interval": 1}
    fusion = ("mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight", "mtp.fc.weight")
    return HeadDecoder(fusion, body, changed)


def _member(name: str, config: dict[str, Any], body: Tensors, head: Tensors) -> ZooMember:
    return ZooMember(
        name=name, config=config, body=body, head=head, heads=1, boundary=KERNEL, offset_norms=True,
        head_type="qwen3_5", head_decoder=_head_decoder, fp8=QWEN,
    )  # fmt: skip


def _qwen35(name: str, model_type: str, architecture: str, *, moe: bool, seed: int) -> ZooMember:
    draw = Drawer(seed)
    text = _decoder(f"{model_type}_text", moe=moe)
    text["dtype"] = text.pop("torch_dtype")
    text |= {
        "layer_types": ["full_attention" if i % INTERVAL else "linear_attention" for i in range(LAYERS)],
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "mlp_only_layers": [],
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
    }
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    }
    config = {
        "architectures": [architecture], "model_type": model_type, "text_config": text, "tie_word_embeddings": False,
        "transformers_version": "4.57.0.dev0",
    }  # fmt: skip
    body = _body(draw, "model.language_model.", moe=moe, next_layout=False)
    head = _head(draw, moe=moe, next_layout=False)
    return _member(name, config, body, head)


def qwen35() -> ZooMember:
    """Qwen3.5, dense, in the nested layout of its releases, without their vision tower."""
    return _qwen35("qwen3.5", "qwen3_5", "Qwen3_5ForConditionalGeneration", moe=False, seed=3)


def qwen35_moe() -> ZooMember:
    """Qwen3.5 with packed experts."""
    return _qwen35("qwen3.5-moe", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", moe=True, seed=4)


def qwen3_next() -> ZooMember:
    """Qwen3-Next: joint input projections, one tensor an expert."""
    draw = Drawer(5)
    config = _decoder("qwen3_next", moe=True) | {
        "architectures": ["Qwen3NextForCausalLM"],
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "rope_scaling": None,
        "use_sliding_window": False,
        "transformers_version": "4.57.0.dev0",
    }
    body = _body(draw, "model.", moe=True, next_layout=True)
    return _member("qwen3-next", config, body, _head(draw, moe=True, next_layout=True))


PLACE = 1
MEMBERS = {"qwen3.5": qwen35, "qwen3.5-moe": qwen35_moe, "qwen3-next": qwen3_next}
