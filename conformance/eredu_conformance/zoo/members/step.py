"""Step 3.5: one layer of full attention to several with a window and more heads, stacked experts, and three heads.

The config lists kind, rotary base, rotary share and clamping of every layer, the heads' behind the target's. Norms are
stored as offsets from one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.member import COMMON, CONTEXT, VOCABULARY, HeadDecoder, ZooMember

HIDDEN, LAYERS, HEADS, SLIDING_HEADS, KEYS, WIDTH, MLP = 64, 3, 4, 6, 2, 16, 96
EXPERTS, CHOSEN, EXPERT_MLP = 8, 2, 32
STAGES, WINDOW = 3, 16
SHARPNESS = 1.5
"""Offset of the query and key norms: attention that averages everything soon repeats one token for good."""
FULL, SLIDING = "full_attention", "sliding_attention"
TYPES = [FULL, *[SLIDING] * (LAYERS + STAGES - 1)]

CONFIG: Mapping[str, Any] = {
    "architectures": ["Step3p5ForCausalLM"],
    "model_type": "step3p5",
    "auto_map": {
        "AutoConfig": "configuration_step3p5.Step3p5Config",
        "AutoModelForCausalLM": "modeling_step3p5.Step3p5ForCausalLM",
    },
    **{key: value for key, value in COMMON.items() if key != "attention_bias"},
    "att_impl_type": "GQA",
    "attention_other_setting": {
        "attention_type": SLIDING,
        "num_attention_heads": SLIDING_HEADS,
        "num_attention_groups": KEYS,
        "head_dim": WIDTH,
        "true_head_dim": WIDTH,
    },
    "head_dim": WIDTH,
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "layer_types": TYPES,
    "max_seq_len": CONTEXT,
    "moe_every_n_layer": 1,
    "moe_intermediate_size": EXPERT_MLP,
    "moe_layer_offset": 0,
    "moe_layers_enum": "1,2",
    "moe_num_experts": EXPERTS,
    "moe_router_activation": "sigmoid",
    "moe_router_scaling_factor": 3.0,
    "moe_top_k": CHOSEN,
    "need_fp32_gate": True,
    "norm_expert_weight": True,
    "num_attention_groups": KEYS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_nextn_predict_layers": STAGES,
    "partial_rotary_factors": [0.5 if kind == FULL else 1.0 for kind in TYPES],
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 2.0,
        "original_max_position_embeddings": CONTEXT // 8,
        "low_freq_factor": 1.0,
        "high_freq_factor": 32.0,
    },
    "rope_theta": [5000000.0 if kind == FULL else 10000.0 for kind in TYPES],
    "share_expert_dim": EXPERT_MLP,
    "sink": False,
    "sliding_window": WINDOW,
    "swiglu_limits": [0.0, 0.0, 0.7, 0.0, 0.0, 0.0],
    "swiglu_limits_shared": [0.0, 0.0, 1.6, 0.0, 0.0, 1.0],
    "use_head_wise_attn_gate": True,
    "use_moe": True,
    "use_moe_router_bias": True,
    "use_qk_norm": True,
    "use_rope_layers": [],
    "yarn_only_types": [FULL],
    "zero_centered": True,
}
"""The release clamps its last two layers, and no head; here a head is, so that it is seen to read its own entry."""


def _norms(draw: Drawer, prefix: str, *names: str) -> Tensors:
    """Norm weights as offsets from one."""
    return draw.norms(prefix, dict.fromkeys(names, HIDDEN), centre=0.0)


def _attention(draw: Drawer, prefix: str, heads: int) -> Tensors:
    shapes = {"q_proj": (heads * WIDTH, HIDDEN), "k_proj": (KEYS * WIDTH, HIDDEN), "v_proj": (KEYS * WIDTH, HIDDEN)}
    tensors = draw.linears(prefix, {**shapes, "g_proj": (heads, HIDDEN)}, gain=1.5)
    tensors |= draw.linears(prefix, {"o_proj": (HIDDEN, heads * WIDTH)}, gain=3.0)
    return tensors | draw.norms(prefix, {"q_norm": WIDTH, "k_norm": WIDTH}, centre=SHARPNESS)


def _experts(draw: Drawer, prefix: str) -> Tensors:
    moe = f"{prefix}moe."
    bias, up, down = f"{moe}router_bias", (EXPERTS, EXPERT_MLP, HIDDEN), (EXPERTS, HIDDEN, EXPERT_MLP)
    stacks = {f"{moe}gate_proj.weight": up, f"{moe}up_proj.weight": up, f"{moe}down_proj.weight": down}
    return {
        **draw.linears(moe, {"gate": (EXPERTS, HIDDEN)}, gain=1.5),
        bias: draw.between(bias, -0.2, 0.2, EXPERTS),
        **{name: draw.normal(name, *shape, gain=1.5) for name, shape in stacks.items()},
        **draw.gated_mlp(f"{prefix}share_expert.", hidden=HIDDEN, inner=EXPERT_MLP),
    }


def _layer(draw: Drawer, number: int, *, dense: bool) -> Tensors:
    prefix = f"model.layers.{number}."
    tensors = _norms(draw, prefix, "input_layernorm", "post_attention_layernorm")
    tensors |= _attention(draw, f"{prefix}self_attn.", HEADS if TYPES[number] == FULL else SLIDING_HEADS)
    return tensors | (draw.gated_mlp(f"{prefix}mlp.", hidden=HIDDEN, inner=MLP) if dense else _experts(draw, prefix))


def _head(draw: Drawer, number: int) -> Tensors:
    prefix = f"model.layers.{number}."
    tensors = _norms(draw, prefix, "enorm", "hnorm", "transformer.shared_head.norm")
    tensors |= draw.linears(prefix, {"eh_proj": (HIDDEN, 2 * HIDDEN)}, gain=1.5)
    tensors |= draw.linears(prefix, {"transformer.shared_head.output": (VOCABULARY, HIDDEN)}, gain=2.5)
    return tensors | _layer(draw, number, dense=True)


def step35() -> ZooMember:
    """Step-3.5-Flash with its three heads."""
    draw = Drawer(13)
    body = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN, centre=0.0)
    head: Tensors = {}
    for layer in range(LAYERS):
        body |= _layer(draw, layer, dense=layer < 1)
    for number in range(LAYERS, LAYERS + STAGES):
        head |= _head(draw, number)
    return ZooMember(
        name="step-3.5", config=CONFIG, body=body, head=head, heads=STAGES, boundary=WINDOW, offset_norms=True,
        head_decoder=_head_decoder,
    )  # fmt: skip


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:
    number = LAYERS + stage
    prefix = f"model.layers.{number}."
    fusion = (f"{prefix}enorm.weight", f"{prefix}hnorm.weight", f"{prefix}eh_proj.weight")
    outside = {
        f"{prefix}transformer.shared_head.norm.weight": "model.norm.weight",
        f"{prefix}transformer.shared_head.output.weight": "lm_head.weight",
    }
    body = {
        outside.get(name, name.replace(prefix, "model.layers.0.")): array
        for name, array in member.head.items()
        if name.startswith(prefix) and name not in fusion
    }
    body["model.embed_tokens.weight"] = member.body["model.embed_tokens.weight"]
    lists = ("layer_types", "rope_theta", "partial_rotary_factors", "swiglu_limits", "swiglu_limits_shared")
    own = {name: [member.config[name][number]] for name in lists}
    changed = {"num_hidden_layers": 1, "num_nextn_predict_layers": 0, "moe_layers_enum": ""}
    return HeadDecoder(fusion, body, own | changed)


PLACE = 7
MEMBERS = {"step-3.5": step35}
