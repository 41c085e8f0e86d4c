"""K-EXAONE: layers with a window and rotary positions, one of full attention without, experts, and a dense head.

Names of the head are Qwen's; norms multiply as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.member import COMMON, VOCABULARY, HeadDecoder, ZooMember
from eredu_conformance.zoo.members import deepseek

HIDDEN, LAYERS, MLP = deepseek.HIDDEN, deepseek.LAYERS, deepseek.MLP
HEADS, KEYS, WIDTH = 6, 2, 16
WINDOW = 16
SHARPNESS = 2.5
"""Weight of the query and key norms: attention that averages everything soon repeats one token for good."""
FULL, SLIDING = "full_attention", "sliding_attention"

CONFIG: Mapping[str, Any] = {
    "architectures": ["ExaoneMoeForCausalLM"],
    "model_type": "exaone_moe",
    **{key: value for key, value in COMMON.items() if key not in ("attention_bias", "torch_dtype")},
    "attention_dropout": 0.0,
    "dtype": "float32",
    "first_k_dense_replace": 1,
    "head_dim": WIDTH,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": MLP,
    "is_moe_layer": [False, True, True],
    "layer_types": [SLIDING, SLIDING, FULL],
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "moe_intermediate_size": deepseek.EXPERT_MLP,
    "mtp_layer_types": [FULL],
    "mtp_sliding_windows": [0],
    "n_group": 1,
    "norm_topk_prob": True,
    "num_attention_heads": HEADS,
    "num_experts": deepseek.EXPERTS,
    "num_experts_per_tok": deepseek.CHOSEN,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KEYS,
    "num_nextn_predict_layers": 1,
    "num_shared_experts": 1,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "sliding_window": WINDOW,
    "sliding_window_pattern": "LLG",
    "sliding_windows": [WINDOW, WINDOW, 0],
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "transformers_version": "5.1.0",
    "use_cache": True,
}


def _attention(draw: Drawer, prefix: str) -> Tensors:
    shapes = {"q_proj": (HEADS * WIDTH, HIDDEN), "k_proj": (KEYS * WIDTH, HIDDEN), "v_proj": (KEYS * WIDTH, HIDDEN)}
    tensors = draw.linears(prefix, shapes, gain=1.5)
    tensors |= draw.linears(prefix, {"o_proj": (HIDDEN, HEADS * WIDTH)}, gain=2.0)
    return tensors | draw.norms(prefix, {"q_norm": WIDTH, "k_norm": WIDTH}, centre=SHARPNESS)


def _experts(draw: Drawer, prefix: str) -> Tensors:
    """DeepSeek's, whose correction biases lie beside the router instead of in it."""
    tensors = deepseek.grouped_experts(draw, prefix)
    return {name.replace(".gate.e_score_", ".e_score_"): array for name, array in tensors.items()}


def _layer(draw: Drawer, prefix: str, *, dense: bool) -> Tensors:
    tensors = draw.norms(prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})
    tensors |= _attention(draw, f"{prefix}self_attn.")
    mlp = f"{prefix}mlp."
    return tensors | (draw.gated_mlp(mlp, hidden=HIDDEN, inner=MLP) if dense else _experts(draw, mlp))


def k_exaone() -> ZooMember:
    """K-EXAONE with its one head; heads of attention are wider than the residual, as in the release."""
    draw = Drawer(15)
    body = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer in range(LAYERS):
        body |= _layer(draw, f"model.layers.{layer}.", dense=layer < 1)
    norms = {"pre_fc_norm_embedding": HIDDEN, "pre_fc_norm_hidden": HIDDEN, "norm": HIDDEN}
    head = draw.norms("mtp.", norms) | draw.linears("mtp.", {"fc": (HIDDEN, 2 * HIDDEN)}, gain=1.5)
    return ZooMember(
        name="k-exaone", config=CONFIG, body=body, head=head | _layer(draw, "mtp.layers.0.", dense=True), heads=1,
        boundary=WINDOW, head_decoder=_head_decoder,
    )  # fmt: skip


def _head_decoder(member: ZooMember, stage: int) -> HeadDecoder:
    layer = f"mtp.layers.{stage}."
    fusion = ("mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight", "mtp.fc.weight")
    body = {
        name.replace(layer, "model.layers.0."): array for name, array in member.head.items() if name.startswith(layer)
    }
    body["model.norm.weight"] = member.head["mtp.norm.weight"]
    body |= {name: member.body[name] for name in ("model.embed_tokens.weight", "lm_head.weight")}
    types = [member.config["mtp_layer_types"][stage]]
    changed = {"num_hidden_layers": 1, "layer_types": types, "mlp_layer_types": ["dense"]}
    return HeadDecoder(fusion, body, changed)


PLACE = 8
MEMBERS = {"k-exaone": k_exaone}
