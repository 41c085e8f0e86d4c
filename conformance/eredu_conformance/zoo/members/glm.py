"""GLM-4.5, GLM-4.7-Flash and GLM-5: experts behind one dense layer, and a head behind the last.

GLM-4.5, 4.6 and 4.7 have grouped-query attention that turns half of each head; GLM-4.7-Flash has DeepSeek V3's latent
attention, and GLM-5 the sparse attention of DeepSeek V3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.eight_bits import DEEPSEEK, ROWS
from eredu_conformance.zoo.member import COMMON, VOCABULARY, ZooMember
from eredu_conformance.zoo.members import deepseek

HIDDEN, LAYERS, HEADS, MLP = deepseek.HIDDEN, deepseek.LAYERS, deepseek.HEADS, deepseek.MLP
KEYS, WIDTH = 2, 32
SHARPNESS = 2.5
"""Gain of queries and keys: attention that averages everything soon repeats one token for good."""

SHARED: Mapping[str, Any] = {
    **COMMON,
    "attention_dropout": 0.0,
    "first_k_dense_replace": 1,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "moe_intermediate_size": deepseek.EXPERT_MLP,
    "n_group": 1,
    "n_routed_experts": deepseek.EXPERTS,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": HEADS,
    "num_experts_per_tok": deepseek.CHOSEN,
    "num_hidden_layers": LAYERS,
    "num_nextn_predict_layers": 1,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "topk_group": 1,
}
GLM_45: Mapping[str, Any] = {
    **SHARED,
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "attention_bias": True,
    "head_dim": WIDTH,
    "initializer_range": 0.02,
    "num_key_value_heads": KEYS,
    "partial_rotary_factor": 0.5,
    "routed_scaling_factor": 2.5,
    "transformers_version": "4.54.0",
    "use_cache": True,
    "use_qk_norm": True,
}
"""The release of 355 billion parameters; the smaller one has neither `use_qk_norm` nor its norms."""
GLM_47_FLASH: Mapping[str, Any] = {
    **SHARED,
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "model_type": "glm4_moe_lite",
    "kv_lora_rank": deepseek.KV_RANK,
    "num_key_value_heads": HEADS,
    "partial_rotary_factor": 1.0,
    "q_lora_rank": deepseek.Q_RANK,
    "qk_nope_head_dim": deepseek.NOPE,
    "qk_rope_head_dim": deepseek.ROPE,
    "routed_scaling_factor": 1.8,
    "topk_method": "noaux_tc",
    "transformers_version": "5.0.0rc0",
    "v_head_dim": deepseek.VALUE,
}
GLM_5: Mapping[str, Any] = {
    **{key: value for key, value in SHARED.items() if key not in ("rope_scaling", "rope_theta")},
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "ep_size": 1,
    "head_dim": deepseek.ROPE,
    "index_head_dim": deepseek.INDEX_WIDTH,
    "index_n_heads": deepseek.INDEX_HEADS,
    "index_topk": deepseek.INDEX_TOP,
    "indexer_rope_interleave": True,
    "initializer_range": 0.02,
    "kv_lora_rank": deepseek.KV_RANK,
    "moe_layer_freq": 1,
    "num_key_value_heads": HEADS,
    "pretraining_tp": 1,
    "q_lora_rank": deepseek.Q_RANK,
    "qk_head_dim": deepseek.NOPE + deepseek.ROPE,
    "qk_nope_head_dim": deepseek.NOPE,
    "qk_rope_head_dim": deepseek.ROPE,
    "rope_interleave": True,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "transformers_version": "5.0.2.dev0",
    "use_cache": True,
    "v_head_dim": deepseek.VALUE,
}


def _attention(draw: Drawer, prefix: str) -> Tensors:
    widths = {"q_proj": HEADS * WIDTH, "k_proj": KEYS * WIDTH, "v_proj": KEYS * WIDTH}
    tensors = draw.linears(prefix, {name: (width, HIDDEN) for name, width in widths.items()}, gain=1.5)
    tensors |= draw.biases(prefix, widths)
    tensors |= draw.linears(prefix, {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=1.5)
    return tensors | draw.norms(prefix, {"q_norm": WIDTH, "k_norm": WIDTH}, centre=SHARPNESS)


def _layer(draw: Drawer, prefix: str, *, dense: bool) -> Tensors:
    tensors = draw.norms(prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})
    tensors |= _attention(draw, f"{prefix}self_attn.")
    if dense:
        return tensors | draw.gated_mlp(f"{prefix}mlp.", hidden=HIDDEN, inner=MLP)
    return tensors | deepseek.grouped_experts(draw, f"{prefix}mlp.")


def glm45() -> ZooMember:
    """GLM-4.5, whose head repeats the target's embedding and output projection, as in the releases."""
    draw = Drawer(9)
    body = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer in range(LAYERS):
        body |= _layer(draw, f"model.layers.{layer}.", dense=layer < 1)
    prefix = f"model.layers.{LAYERS}."
    head = deepseek.extra_layer(draw, body, prefix, _layer(draw, prefix, dense=False))
    return ZooMember(
        name="glm-4.5",
        config=GLM_45,
        body=body,
        head=head,
        heads=1,
        head_decoder=deepseek.layer_behind_the_last,
        fp8=ROWS,
    )


def glm47_flash() -> ZooMember:
    """GLM-4.7-Flash: the tensors of DeepSeek V3 under settings of its own."""
    body, head = deepseek.latent_tensors(Drawer(10), 1)
    return ZooMember(
        name="glm-4.7-flash", config=GLM_47_FLASH, body=body, head=head, heads=1,
        head_decoder=deepseek.layer_behind_the_last, fp8=ROWS,
    )  # fmt: skip


def glm5() -> ZooMember:
    """GLM-5: the tensors of DeepSeek V3.2, whose indexers turn neighbouring numbers instead of halves."""
    body, head = deepseek.latent_tensors(Drawer(14), 1, indexed=True)
    return ZooMember(
        name="glm-5", config=GLM_5, body=body, head=head, heads=1, boundary=deepseek.INDEX_TOP,
        head_decoder=deepseek.layer_behind_the_last, fp8=DEEPSEEK,
    )  # fmt: skip


PLACE = 4
MEMBERS = {"glm-4.5": glm45, "glm-4.7-flash": glm47_flash, "glm-5": glm5}
