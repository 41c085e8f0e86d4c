"""Nemotron-H: state space, attention without positions, feed-forward and latent experts, one mixer a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.eight_bits import MODELOPT
from eredu_conformance.zoo.member import COMMON, VOCABULARY, HeadDecoder, ZooMember

HIDDEN, PATTERN, HEAD_PATTERN = 64, "M*ME-M*E", "*E"
HEADS, KEYS, WIDTH = 4, 2, 16
STATE_HEADS, STATE_WIDTH, STATE, GROUPS, KERNEL = 8, 8, 16, 2, 4
MLP, EXPERTS, CHOSEN, EXPERT_MLP, SHARED_MLP, LATENT = 96, 8, 2, 32, 32, 32


def _config(heads: int) -> dict[str, Any]:
    return {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        **COMMON,
        "hidden_size": HIDDEN,
        "num_hidden_layers": len(PATTERN),
        "hybrid_override_pattern": PATTERN,
        "num_nextn_predict_layers": heads,
        "mtp_hybrid_override_pattern": HEAD_PATTERN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEYS,
        "head_dim": WIDTH,
        "intermediate_size": MLP,
        "mlp_bias": False,
        "mlp_hidden_act": "relu2",
        "mamba_num_heads": STATE_HEADS,
        "mamba_head_dim": STATE_WIDTH,
        "mamba_hidden_act": "silu",
        "mamba_proj_bias": False,
        "ssm_state_size": STATE,
        "n_groups": GROUPS,
        "conv_kernel": KERNEL,
        "chunk_size": 16,
        "time_step_min": 0.001,
        "time_step_max": 0.1,
        "time_step_limit": [0.0, float("inf")],
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "n_routed_experts": EXPERTS,
        "n_shared_experts": 1,
        "num_experts_per_tok": CHOSEN,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "moe_intermediate_size": EXPERT_MLP,
        "moe_shared_expert_intermediate_size": SHARED_MLP,
        "moe_latent_size": LATENT,
        "attention_dropout": 0.0,
        "expand": 2,
        "hidden_dropout": 0.0,
        "initializer_range": 0.02,
        "mamba_ssm_cache_dtype": "float32",
        "moe_shared_expert_overlap": False,
        "norm_eps": 1e-5,
        "num_logits_to_keep": 1,
        "partial_rotary_factor": 1.0,
        "rescale_prenorm_residual": True,
        "residual_in_fp32": False,
        "rope_theta": 10000.0,
        "sliding_window": None,
        "time_step_floor": 0.0001,
        "use_cache": True,
        "use_mamba_kernels": True,
    }


def _state_space(draw: Drawer, prefix: str) -> Tensors:
    inner = STATE_HEADS * STATE_WIDTH
    channels = inner + 2 * GROUPS * STATE
    return {
        **draw.linears(prefix, {"in_proj": (inner + channels + STATE_HEADS, HIDDEN)}, gain=1.5),
        **draw.linears(prefix, {"out_proj": (HIDDEN, inner)}, gain=1.5),
        f"{prefix}conv1d.weight": draw.normal(f"{prefix}conv1d.weight", channels, 1, KERNEL, gain=1.5),
        f"{prefix}conv1d.bias": draw.near(f"{prefix}conv1d.bias", 0.0, channels),
        f"{prefix}dt_bias": draw.between(f"{prefix}dt_bias", -1.5, 0.0, STATE_HEADS),
        f"{prefix}A_log": np.log(draw.between(f"{prefix}A_log", 0.1, 2.0, STATE_HEADS)),
        f"{prefix}D": draw.near(f"{prefix}D", 1.0, STATE_HEADS),
        f"{prefix}norm.weight": draw.near(f"{prefix}norm.weight", 1.0, inner),
    }


def _attention(draw: Drawer, prefix: str) -> Tensors:
    shapes = {"q_proj": (HEADS * WIDTH, HIDDEN), "k_proj": (KEYS * WIDTH, HIDDEN), "v_proj": (KEYS * WIDTH, HIDDEN)}
    return {
        **draw.linears(prefix, shapes, gain=1.5),
        **draw.linears(prefix, {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=2.0),
    }


def _experts(draw: Drawer, prefix: str) -> Tensors:
    bias = f"{prefix}gate.e_score_correction_bias"
    tensors = draw.linears(prefix, {"gate": (EXPERTS, HIDDEN)}, gain=1.5)
    tensors[bias] = draw.between(bias, 0.0, 0.3, EXPERTS)
    tensors |= draw.linears(prefix, {"fc1_latent_proj": (LATENT, HIDDEN), "fc2_latent_proj": (HIDDEN, LATENT)})
    tensors |= draw.linears(
        f"{prefix}shared_experts.", {"up_proj": (SHARED_MLP, HIDDEN), "down_proj": (HIDDEN, SHARED_MLP)}
    )
    for expert in range(EXPERTS):
        shapes = {"up_proj": (EXPERT_MLP, LATENT), "down_proj": (LATENT, EXPERT_MLP)}
        tensors |= draw.linears(f"{prefix}experts.{expert}.", shapes, gain=1.2)
    return tensors


def _mlp(draw: Drawer, prefix: str) -> Tensors:
    return draw.linears(prefix, {"up_proj": (MLP, HIDDEN), "down_proj": (HIDDEN, MLP)})


_MIXERS = {"M": _state_space, "*": _attention, "E": _experts, "-": _mlp}


def _layer(draw: Drawer, prefix: str, kind: str) -> Tensors:
    return {**draw.norms(prefix, {"norm": HIDDEN}), **_MIXERS[kind](draw, f"{prefix}mixer.")}


def _head(draw: Drawer, number: int) -> Tensors:
    """One step: its first layer fuses, its last one norms."""
    tensors: Tensors = {}
    start = number * len(HEAD_PATTERN)
    for offset, kind in enumerate(HEAD_PATTERN):
        tensors |= _layer(draw, f"mtp.layers.{start + offset}.", kind)
    first, last = f"mtp.layers.{start}.", f"mtp.layers.{start + len(HEAD_PATTERN) - 1}."
    norms = (f"{first}enorm.weight", f"{first}hnorm.weight", f"{last}final_layernorm.weight")
    tensors |= {name: draw.near(name, 1.0, HIDDEN) for name in norms}
    return tensors | draw.linears(first, {"eh_proj": (HIDDEN, 2 * HIDDEN)}, gain=1.5)


def nemotron_h(heads: int = 1) -> ZooMember:
    """Nemotron-H with every kind of layer, and `heads` prediction steps (the releases have one)."""
    draw = Drawer(8)
    body = draw.outer("backbone.embeddings", "backbone.norm_f", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer, kind in enumerate(PATTERN):
        body |= _layer(draw, f"backbone.layers.{layer}.", kind)
    head: Tensors = {}
    for number in range(heads):
        head |= _head(draw, number)
    return ZooMember(
        name="nemotron-h", config=_config(heads), body=body, head=head, heads=heads, boundary=KERNEL,
        expert_parts={"up_proj": "fc1", "down_proj": "fc2"}, head_decoder=_head_decoder,
        fp8=MODELOPT,
    )  # fmt: skip


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:
    start = stage * len(HEAD_PATTERN)
    first = f"mtp.layers.{start}."
    fusion = (f"{first}enorm.weight", f"{first}hnorm.weight", f"{first}eh_proj.weight")
    body: Tensors = {name: array for name, array in member.body.items() if "embeddings" in name or "lm_head" in name}
    for number in range(len(HEAD_PATTERN)):
        prefix = f"mtp.layers.{start + number}."
        own = {name: array for name, array in member.head.items() if name.startswith(prefix) and name not in fusion}
        for name, array in own.items():
            inner = name.removeprefix(prefix)
            norms = inner.startswith("final_layernorm")
            body["backbone.norm_f.weight" if norms else f"backbone.layers.{number}.{inner}"] = array
    changed = {"layers_block_type": None, "hybrid_override_pattern": HEAD_PATTERN}
    return HeadDecoder(fusion, body, {**changed, "num_hidden_layers": len(HEAD_PATTERN), "num_nextn_predict_layers": 0})


PLACE = 2
MEMBERS = {"nemotron-h": nemotron_h}
