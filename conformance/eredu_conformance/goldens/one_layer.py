"""A prediction head as a Transformers model of its own: one embedding-less decoder whose final norm is the head's.

Transformers has code of its own for DeepSeek V3's heads and none for the others. But every head is decoder layers of
the target's kind with a norm behind them, so the head's tensors, renamed, are a checkpoint that Transformers loads.
What remains to be written is the fusion in front, three lines that stand in `making`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eredu_conformance.zoo import ZooMember
from eredu_conformance.zoo.drawing import Tensors
from eredu_conformance.zoo.nemotron import HEAD_PATTERN

FUSIONS = {"qwen": ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc"), "other": ("enorm", "hnorm", "eh_proj")}
"""Names of the two norms and the projection in front of the layers."""


def head_decoder(member: ZooMember, stage: int) -> ZooMember:
    """The layers, final norm and output projection of one stage of a member's head, as a checkpoint."""
    if member.model_type == "nemotron_h":
        return _nemotron(member, stage)
    return _deepseek(member, stage) if member.model_type.startswith("deepseek") else _qwen(member)


def fusion(member: ZooMember, stage: int) -> tuple[str, str, str]:
    """Full names of a stage's embedding norm, hidden norm and projection."""
    if member.model_type.startswith("qwen"):
        prefix, names = "mtp.", FUSIONS["qwen"]
    elif member.model_type == "nemotron_h":
        prefix, names = f"mtp.layers.{stage * len(HEAD_PATTERN)}.", FUSIONS["other"]
    else:
        prefix, names = f"model.layers.{member.config['num_hidden_layers'] + stage}.", FUSIONS["other"]
    first, second, third = (f"{prefix}{name}.weight" for name in names)
    return first, second, third


def _qwen(member: ZooMember) -> ZooMember:
    nested = "text_config" in member.config
    prefix = "model.language_model." if nested else "model."
    body = {
        name.replace("mtp.", prefix): array
        for name, array in member.head.items()
        if name.startswith("mtp.layers.") or name == "mtp.norm.weight"
    }
    body |= {name: array for name, array in member.body.items() if "embed_tokens" in name or "lm_head" in name}
    changed = {"num_hidden_layers": 1, "layer_types": ["full_attention"], "full_attention_interval": 1}
    return _member(member, body, changed)


def _deepseek(member: ZooMember, stage: int) -> ZooMember:
    prefix = f"model.layers.{member.config['num_hidden_layers'] + stage}."
    own = {name.removeprefix(prefix): array for name, array in member.head.items() if name.startswith(prefix)}
    outside = {
        "embed_tokens.weight": "model.embed_tokens.weight",
        "shared_head.norm.weight": "model.norm.weight",
        "shared_head.head.weight": "lm_head.weight",
    }
    body = {
        outside.get(name, f"model.layers.0.{name}"): array
        for name, array in own.items()
        if not name.startswith(FUSIONS["other"])
    }
    return _member(member, body, {"num_hidden_layers": 1, "first_k_dense_replace": 0, "num_nextn_predict_layers": 0})


def _nemotron(member: ZooMember, stage: int) -> ZooMember:
    pattern = HEAD_PATTERN
    body: Tensors = {name: array for name, array in member.body.items() if "embeddings" in name or "lm_head" in name}
    for number in range(len(pattern)):
        prefix = f"mtp.layers.{stage * len(pattern) + number}."
        own = {name.removeprefix(prefix): array for name, array in member.head.items() if name.startswith(prefix)}
        body |= {
            "backbone.norm_f.weight"
            if name.startswith("final_layernorm")
            else f"backbone.layers.{number}.{name}": array
            for name, array in own.items()
            if not name.startswith(FUSIONS["other"])
        }
    listed = {"layers_block_type": None, "hybrid_override_pattern": pattern}
    return _member(member, body, {**listed, "num_hidden_layers": len(pattern), "num_nextn_predict_layers": 0})


def _member(member: ZooMember, body: Tensors, changed: dict[str, Any]) -> ZooMember:
    config = dict(member.config)
    if "text_config" in config:
        config["text_config"] = config["text_config"] | changed
    else:
        config |= changed
    return replace(member, name=f"{member.name}-head", config=config, body=body, head={}, heads=0)
