"""LongCat-Flash: two latent attentions and feed-forwards a layer, experts beside them, some of which do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.member import COMMON, VOCABULARY, HeadDecoder, ZooMember
from eredu_conformance.zoo.members import deepseek

HIDDEN, HEADS, MLP = deepseek.HIDDEN, deepseek.HEADS, deepseek.MLP
Q_RANK, KV_RANK = deepseek.Q_RANK, deepseek.KV_RANK
LAYERS, EXPERTS, IDENTITIES, CHOSEN, EXPERT_MLP = 2, 6, 2, 2, deepseek.EXPERT_MLP
GAIN = 1.3
"""Of the attentions' projections, whose latents are scaled up as well."""
PREFIX = "model.mtp.layers.0."
INNER = "transformer_layer."

CONFIG: Mapping[str, Any] = {
    "architectures": ["LongcatFlashForCausalLM"],
    "model_type": "longcat_flash",
    **COMMON,
    "attention_dropout": 0.0,
    "attention_method": "MLA",
    "auto_map": {
        "AutoConfig": "configuration_longcat_flash.LongcatFlashConfig",
        "AutoModel": "modeling_longcat_flash.LongcatFlashModel",
        "AutoModelForCausalLM": "modeling_longcat_flash.LongcatFlashForCausalLM",
    },
    "expert_ffn_hidden_size": EXPERT_MLP,
    "ffn_hidden_size": MLP,
    "head_dim": deepseek.ROPE,
    "hidden_size": HIDDEN,
    "initializer_range": 0.006,
    "kv_lora_rank": KV_RANK,
    "mla_scale_kv_lora": True,
    "mla_scale_q_lora": True,
    "moe_topk": CHOSEN,
    "n_routed_experts": EXPERTS,
    "num_attention_heads": HEADS,
    "num_layers": LAYERS,
    "q_lora_rank": Q_RANK,
    "qk_nope_head_dim": deepseek.NOPE,
    "qk_rope_head_dim": deepseek.ROPE,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000000.0,
    "routed_scaling_factor": 1.5,
    "use_cache": True,
    "v_head_dim": deepseek.VALUE,
    "zero_expert_num": IDENTITIES,
    "zero_expert_type": "identity",
}
ALONE: Mapping[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 1,
    "intermediate_size": MLP,
    "num_hidden_layers": 1,
    "num_key_value_heads": HEADS,
    "rope_interleave": True,
    "rope_scaling": None,
}
"""What makes the head's layer a dense layer of DeepSeek V3, once the scales of its latents are in their norms."""


def _attention(draw: Drawer, prefix: str) -> Tensors:
    return deepseek.latent_attention(draw, prefix, gain=GAIN, outward=GAIN)


def _layer(draw: Drawer, prefix: str) -> Tensors:
    tensors: Tensors = {}
    for half in range(2):
        norms = {f"input_layernorm.{half}": HIDDEN, f"post_attention_layernorm.{half}": HIDDEN}
        tensors |= draw.norms(prefix, norms) | _attention(draw, f"{prefix}self_attn.{half}.")
        tensors |= draw.gated_mlp(f"{prefix}mlps.{half}.", hidden=HIDDEN, inner=MLP)
    bias = f"{prefix}mlp.router.e_score_correction_bias"
    tensors |= draw.linears(f"{prefix}mlp.router.", {"classifier": (EXPERTS + IDENTITIES, HIDDEN)}, gain=1.5)
    tensors[bias] = draw.between(bias, -0.1, 0.1, EXPERTS + IDENTITIES)
    for expert in range(EXPERTS):
        tensors |= draw.gated_mlp(f"{prefix}mlp.experts.{expert}.", hidden=HIDDEN, inner=EXPERT_MLP)
    return tensors


def longcat() -> ZooMember:
    """LongCat-Flash with its head, which repeats the target's embedding, as in the release."""
    draw = Drawer(16)
    body = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer in range(LAYERS):
        body |= _layer(draw, f"model.layers.{layer}.")
    norms = {"enorm.m": HIDDEN, "hnorm.m": HIDDEN, "input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN}
    head = {
        "model.mtp.embed_tokens.weight": body["model.embed_tokens.weight"],
        **draw.norms(PREFIX, norms),
        **draw.linears(PREFIX, {"eh_proj": (HIDDEN, 2 * HIDDEN)}, gain=1.5),
        **_attention(draw, f"{PREFIX}self_attn."),
        **draw.gated_mlp(f"{PREFIX}{INNER}mlp.", hidden=HIDDEN, inner=MLP),
        **draw.norms("model.mtp.", {"norm": HIDDEN}),
    }
    return ZooMember(name="longcat", config=CONFIG, body=body, head=head, heads=1, head_decoder=_head_decoder)


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:  # noqa: ARG001 (there is one)
    fusion = (f"{PREFIX}enorm.m.weight", f"{PREFIX}hnorm.m.weight", f"{PREFIX}eh_proj.weight")
    scales = {"q_a_layernorm": (HIDDEN / Q_RANK) ** 0.5, "kv_a_layernorm": (HIDDEN / KV_RANK) ** 0.5}
    body = {
        f"model.layers.0.{name.removeprefix(PREFIX).removeprefix(INNER)}": array
        * next((scale for norm, scale in scales.items() if norm in name), 1)
        for name, array in member.head.items()
        if name.startswith(PREFIX) and name not in fusion
    }
    body |= {name: member.body[name] for name in ("model.embed_tokens.weight", "lm_head.weight")}
    body["model.norm.weight"] = member.head["model.mtp.norm.weight"]
    return HeadDecoder(fusion, body, ALONE)


PLACE = 9
MEMBERS = {"longcat": longcat}
