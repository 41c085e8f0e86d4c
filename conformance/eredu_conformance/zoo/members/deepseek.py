"""DeepSeek V3 and V3.2: latent attention, grouped experts behind one dense layer; V3.2 attends to a chosen few rows.

The prediction heads are the layers behind the last, with an embedding and an output projection of their own that
equal the target's, as in the releases.
"""

from __future__ import annotations

from typing import Any

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.eight_bits import DEEPSEEK
from eredu_conformance.zoo.member import COMMON, CONTEXT, VOCABULARY, HeadDecoder, ZooMember

HIDDEN, LAYERS, HEADS = 64, 3, 4
Q_RANK, KV_RANK, NOPE, ROPE, VALUE = 32, 32, 16, 16, 16
MLP, EXPERTS, CHOSEN, GROUPS, EXPERT_MLP = 96, 8, 2, 2, 32
INDEX_HEADS, INDEX_WIDTH, INDEX_TOP = 16, 32, 24
# An index score is a sum of rectified terms, one a head: with few heads many scores are exactly 0, and which of
# equal ones is chosen is nowhere defined. The releases have 64 heads.


def _config(model_type: str, architecture: str, heads: int) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        **COMMON,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_nextn_predict_layers": heads,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "intermediate_size": MLP,
        "q_lora_rank": Q_RANK,
        "kv_lora_rank": KV_RANK,
        "qk_nope_head_dim": NOPE,
        "qk_rope_head_dim": ROPE,
        "v_head_dim": VALUE,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_routed_experts": EXPERTS,
        "n_shared_experts": 1,
        "num_experts_per_tok": CHOSEN,
        "n_group": GROUPS,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "moe_intermediate_size": EXPERT_MLP,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_dropout": 0.0,
        "aux_loss_alpha": 0.001,
        "ep_size": 1,
        "initializer_range": 0.02,
        "pretraining_tp": 1,
        "seq_aux": True,
        "use_cache": True,
        "transformers_version": "4.33.1",
        "auto_map": {
            "AutoConfig": "configuration_deepseek.DeepseekV3Config",
            "AutoModel": "modeling_deepseek.DeepseekV3Model",
            "AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM",
        },
        "rope_scaling": {
            "type": "yarn",
            "factor": 4,
            "original_max_position_embeddings": CONTEXT // 4,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
    }


def latent_attention(draw: Drawer, prefix: str, *, gain: float = 1.5, outward: float = 2.0) -> Tensors:
    """The projections and norms of latent attention; `outward` is the gain of the last projection."""
    shapes = {
        "q_a_proj": (Q_RANK, HIDDEN),
        "q_b_proj": (HEADS * (NOPE + ROPE), Q_RANK),
        "kv_a_proj_with_mqa": (KV_RANK + ROPE, HIDDEN),
        "kv_b_proj": (HEADS * (NOPE + VALUE), KV_RANK),
    }
    tensors = draw.linears(prefix, shapes, gain=gain)
    tensors |= draw.linears(prefix, {"o_proj": (HIDDEN, HEADS * VALUE)}, gain=outward)
    return tensors | draw.norms(prefix, {"q_a_layernorm": Q_RANK, "kv_a_layernorm": KV_RANK})


def _indexer(draw: Drawer, prefix: str) -> Tensors:
    shapes = {
        "wq_b": (INDEX_HEADS * INDEX_WIDTH, Q_RANK),
        "wk": (INDEX_WIDTH, HIDDEN),
        "weights_proj": (INDEX_HEADS, HIDDEN),
    }
    bias = f"{prefix}k_norm.bias"
    return {
        **draw.linears(prefix, shapes, gain=1.5),
        **draw.norms(prefix, {"k_norm": INDEX_WIDTH}),
        bias: draw.near(bias, 0.0, INDEX_WIDTH),
    }


def grouped_experts(draw: Drawer, prefix: str) -> Tensors:
    """A router with correction biases, shared experts and routed ones."""
    bias = f"{prefix}gate.e_score_correction_bias"
    tensors = draw.linears(prefix, {"gate": (EXPERTS, HIDDEN)}, gain=1.5)
    tensors[bias] = draw.between(bias, 0.0, 0.3, EXPERTS)
    tensors |= draw.gated_mlp(f"{prefix}shared_experts.", hidden=HIDDEN, inner=EXPERT_MLP)
    for expert in range(EXPERTS):
        tensors |= draw.gated_mlp(f"{prefix}experts.{expert}.", hidden=HIDDEN, inner=EXPERT_MLP)
    return tensors


def _layer(draw: Drawer, prefix: str, *, dense: bool, indexed: bool) -> Tensors:
    tensors = draw.norms(prefix, {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN})
    tensors |= latent_attention(draw, f"{prefix}self_attn.")
    if indexed:
        tensors |= _indexer(draw, f"{prefix}self_attn.indexer.")
    if dense:
        return tensors | draw.gated_mlp(f"{prefix}mlp.", hidden=HIDDEN, inner=MLP)
    return tensors | grouped_experts(draw, f"{prefix}mlp.")


def _body(draw: Drawer, *, indexed: bool) -> Tensors:
    tensors = draw.outer("model.embed_tokens", "model.norm", vocabulary=VOCABULARY, hidden=HIDDEN)
    for layer in range(LAYERS):
        tensors |= _layer(draw, f"model.layers.{layer}.", dense=layer < 1, indexed=indexed)
    return tensors


def extra_layer(draw: Drawer, body: Tensors, prefix: str, layer: Tensors) -> Tensors:
    """A head behind the last layer: its fusion, its layer, and the target's embedding and output projection again."""
    return {
        f"{prefix}embed_tokens.weight": body["model.embed_tokens.weight"],
        **draw.norms(prefix, {"enorm": HIDDEN, "hnorm": HIDDEN, "shared_head.norm": HIDDEN}),
        **draw.linears(prefix, {"eh_proj": (HIDDEN, 2 * HIDDEN)}, gain=1.5),
        **layer,
        f"{prefix}shared_head.head.weight": body["lm_head.weight"],
    }


def _head(draw: Drawer, body: Tensors, number: int, *, indexed: bool) -> Tensors:
    prefix = f"model.layers.{LAYERS + number}."
    return extra_layer(draw, body, prefix, _layer(draw, prefix, dense=False, indexed=indexed))


def latent_tensors(draw: Drawer, heads: int, *, indexed: bool = False) -> tuple[Tensors, Tensors]:
    """Tensors of a target with latent attention and grouped experts, and of its heads; with indexers or without."""
    body = _body(draw, indexed=indexed)
    head: Tensors = {}
    for number in range(heads):
        head |= _head(draw, body, number, indexed=indexed)
    return body, head


def deepseek_v3(heads: int = 1) -> ZooMember:
    """DeepSeek V3 with `heads` prediction heads (the releases have one)."""
    body, head = latent_tensors(Drawer(6), heads)
    config = _config("deepseek_v3", "DeepseekV3ForCausalLM", heads)
    return ZooMember(
        name="deepseek-v3", config=config, body=body, head=head, heads=heads, head_decoder=layer_behind_the_last,
        fp8=DEEPSEEK,
    )  # fmt: skip


def deepseek_v32() -> ZooMember:
    """DeepSeek V3.2: beyond `index_topk` rows, an indexer chooses which ones are attended to."""
    body, head = latent_tensors(Drawer(7), 1, indexed=True)
    config = _config("deepseek_v32", "DeepseekV32ForCausalLM", 1) | {
        "index_n_heads": INDEX_HEADS,
        "index_head_dim": INDEX_WIDTH,
        "index_topk": INDEX_TOP,
    }
    return ZooMember(
        name="deepseek-v3.2", config=config, body=body, head=head, heads=1, boundary=INDEX_TOP,
        head_decoder=layer_behind_the_last, fp8=DEEPSEEK,
    )  # fmt: skip


def layer_behind_the_last(member: ZooMember, stage: int) -> HeadDecoder:
    """The head of a family whose heads are layers behind the last, as a decoder of that layer alone."""
    prefix = f"model.layers.{member.config['num_hidden_layers'] + stage}."
    fusion = (f"{prefix}enorm.weight", f"{prefix}hnorm.weight", f"{prefix}eh_proj.weight")
    outside = {
        "embed_tokens.weight": "model.embed_tokens.weight",
        "shared_head.norm.weight": "model.norm.weight",
        "shared_head.head.weight": "lm_head.weight",
    }
    own = {
        name.removeprefix(prefix): array
        for name, array in member.head.items()
        if name.startswith(prefix) and name not in fusion
    }
    body = {outside.get(name, f"model.layers.0.{name}"): array for name, array in own.items()}
    changed = {"num_hidden_layers": 1, "first_k_dense_replace": 0, "num_nextn_predict_layers": 0}
    return HeadDecoder(fusion, body, changed | {"mlp_layer_types": ["sparse"]})


PLACE = 3
MEMBERS = {"deepseek-v3": deepseek_v3, "deepseek-v3.2": deepseek_v32}
