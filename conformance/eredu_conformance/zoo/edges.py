"""Members changed in one respect, where implementations of the same family are known or likely to part.

Each is a whole member, named `family+respect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eredu_conformance.zoo.drawing import Drawer, Tensors
from eredu_conformance.zoo.member import CONTEXT, ZooMember
from eredu_conformance.zoo.members.deepseek import deepseek_v3, deepseek_v32
from eredu_conformance.zoo.members.dense import llama, qwen3
from eredu_conformance.zoo.members.exaone import SLIDING, WINDOW, k_exaone
from eredu_conformance.zoo.members.nemotron import nemotron_h
from eredu_conformance.zoo.members.qwen import qwen3_next, qwen35


def negative_bias() -> ZooMember:
    """DeepSeek V3 whose correction biases make most biased scores negative: a closed group must still stay closed."""
    member = deepseek_v3()
    draw = Drawer(61)

    def biased(tensors: Tensors) -> Tensors:
        return {
            name: draw.between(name, -1.2, -0.6, *array.shape) if name.endswith("correction_bias") else array
            for name, array in tensors.items()
        }

    return replace(member, name="deepseek-v3+negative-bias", body=biased(member.body), head=biased(member.head))


def small_keys() -> ZooMember:
    """DeepSeek V3.2 whose index keys are so small that the epsilon of their norm matters."""
    member = deepseek_v32()

    def shrunk(tensors: Tensors) -> Tensors:
        return {
            name: array * np.float32(1e-3) if name.endswith("indexer.wk.weight") else array
            for name, array in tensors.items()
        }

    return replace(member, name="deepseek-v3.2+small-keys", body=shrunk(member.body), head=shrunk(member.head))


def short_steps() -> ZooMember:
    """Nemotron-H whose time steps are mostly below the config's `time_step_min`."""
    member = nemotron_h()
    body = {name: array - np.float32(8) if name.endswith("dt_bias") else array for name, array in member.body.items()}
    return replace(member, name="nemotron-h+short-steps", body=body)


def tied() -> ZooMember:
    """Qwen3.5 whose output projection is its embedding, as in the small releases."""
    member = qwen35()
    text = {**member.config["text_config"], "tie_word_embeddings": True}
    body = {name: array for name, array in member.body.items() if name != "lm_head.weight"}
    config = {**member.config, "text_config": text, "tie_word_embeddings": True}
    return replace(member, name="qwen3.5+tied", config=config, body=body)


def text_only() -> ZooMember:
    """Qwen3.5 as a plain text model: nothing nested, in config or names."""
    member = qwen35()
    config = {**member.config["text_config"], "architectures": ["Qwen3_5ForCausalLM"]}
    body = {name.replace("model.language_model.", "model."): array for name, array in member.body.items()}
    return replace(member, name="qwen3.5+text-only", config=config, body=body)


def _nested_rope(member: ZooMember, theta: float = 500.0) -> ZooMember:
    """A config as Transformers 5 writes it: rotary settings under `rope_parameters` and nowhere else."""
    config = {name: value for name, value in member.config.items() if name not in _ROPE_KEYS}
    scaling: Mapping[str, Any] = member.config.get("rope_scaling") or {}
    rope = {("rope_type" if name == "type" else name): value for name, value in scaling.items()}
    config["rope_parameters"] = {"rope_type": "default", **rope, "rope_theta": theta}
    if "partial_rotary_factor" in member.config:
        config["rope_parameters"]["partial_rotary_factor"] = member.config["partial_rotary_factor"]
    return replace(member, name=f"{member.name}+nested-rope", config=config)


_ROPE_KEYS = frozenset({"rope_theta", "rope_scaling", "partial_rotary_factor"})


def scaled_rotary() -> tuple[ZooMember, ...]:
    """Rotary frequencies stretched for long texts, in either form of config.json, within the golden prompt's reach."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": CONTEXT // 4}
    by_parts = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": CONTEXT // 8,
    }
    deepseek, wide = deepseek_v3(), qwen35()
    uneven = {**deepseek.config["rope_scaling"], "mscale": 0.5, "mscale_all_dim": 0.8}
    text = wide.config["text_config"]
    text = {**text, "rope_parameters": {**text["rope_parameters"], **yarn}}
    stretched = replace(llama(), config={**llama().config, "rope_scaling": yarn})
    return (
        replace(llama(), name="llama+llama3-rope", config={**llama().config, "rope_scaling": by_parts}),
        replace(_nested_rope(stretched), name="llama+nested-yarn"),
        replace(wide, name="qwen3.5+yarn", config={**wide.config, "text_config": text}),
        replace(deepseek, name="deepseek-v3+uneven-mscale", config={**deepseek.config, "rope_scaling": uneven}),
    )


def listed_layers() -> ZooMember:
    """Nemotron-H whose layers are listed by name, as Transformers 5 writes them."""
    member = nemotron_h()
    words = {"M": "linear_attention", "*": "full_attention", "E": "moe", "-": "mlp"}
    config = dict(member.config)
    config["layers_block_type"] = [words[letter] for letter in config.pop("hybrid_override_pattern")]
    config["mtp_layers_block_type"] = [words[letter] for letter in config.pop("mtp_hybrid_override_pattern")]
    return replace(member, name="nemotron-h+listed-layers", config=config)


def sliding_head() -> ZooMember:
    """K-EXAONE whose head has a window, and whose dense layers are counted, not listed."""
    member = k_exaone()
    config = {name: value for name, value in member.config.items() if name not in ("is_moe_layer", "mlp_layer_types")}
    config |= {"mtp_layer_types": [SLIDING], "mtp_sliding_windows": [WINDOW]}
    return replace(member, name="k-exaone+sliding-head", config=config)


def edges() -> tuple[ZooMember, ...]:
    """All of them."""
    return (
        negative_bias(),
        small_keys(),
        short_steps(),
        tied(),
        text_only(),
        listed_layers(),
        sliding_head(),
        *scaled_rotary(),
        replace(deepseek_v3(heads=2), name="deepseek-v3+two-heads"),
        replace(nemotron_h(heads=2), name="nemotron-h+two-heads"),
        *(_nested_rope(member) for member in (llama(), qwen3(), qwen3_next(), deepseek_v3(), deepseek_v32())),
    )
