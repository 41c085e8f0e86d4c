"""What a family's mlx-lm class takes for granted: a config that says otherwise is another model, and is refused.

mlx-lm reads the keys that it knows and passes over the rest, so such a checkpoint would load and compute something
else. Keys that are missing have the family's published default, which is what the class computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.checkpoints.config import ModelConfig
from eredu.contract.errors import CapabilityError

DEEPSEEK = {
    "hidden_act": "silu",
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "rope_interleave": True,
    "tie_word_embeddings": False,
}
NEMOTRON = {
    "mlp_hidden_act": "relu2",
    "mamba_hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "n_shared_experts": 1,
}
ASSUMED: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "kimi_k2"), DEEPSEEK),
    "nemotron_h": NEMOTRON,
}
"""Settings by `model_type`."""


def broken_assumption(config: ModelConfig) -> str | None:
    """The first setting that the family's class would pass over, in a sentence; None where there is none."""
    for key, expected in ASSUMED.get(config.model_type, {}).items():
        given = config.get(key)
        if given is not None and given != expected:
            return (
                f"{config.path} sets {key} to {given!r}; mlx-lm's {config.model_type} computes {expected!r} whatever "
                "the config says, so it would be another model. Use an engine that follows the setting"
            )
    return None


def require_assumed(config: ModelConfig) -> None:
    """Raises `CapabilityError` with what `broken_assumption` says."""
    broken = broken_assumption(config)
    if broken is not None:
        raise CapabilityError(broken)
