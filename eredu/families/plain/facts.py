"""Families that eredu decodes, and whose only fact of interest is what their layers remember."""

from __future__ import annotations

from eredu.checkpoints.caches import FULL, RECURRENT, LayerCache, by_layer_types, every, every_nth_full, window_of
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family

FULL_ATTENTION = Family(
    folder="plain",
    model_types=(
        "cohere", "deepseek", "dots1", "exaone", "gemma", "gemma2", "glm", "glm4",
        "gpt_neox", "granite", "granitemoe", "helium", "internlm2", "internlm3", "minicpm", "mixtral",
        "nemotron", "olmo2", "olmoe", "phi", "phi3", "phimoe", "qwen", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
        "seed_oss", "smollm3", "stablelm", "starcoder2",
    ),
    caches=every(FULL),
    even_attention=True,
    lends_attention=("qwen2", "qwen3"),
    gguf=(
        "command-r", "exaone", "gemma", "gemma2", "glm4", "gpt2", "granite", "internlm2", "nemotron", "olmo2", "phi2",
        "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "seed_oss", "smollm3", "stablelm", "starcoder2",
    ),
)  # fmt: skip
"""Their mlx-lm class keeps plain keys and values in every layer, whatever the config says of windows."""

LAYERS_BY_TYPE = Family(folder="plain", model_types=("olmo3", "exaone4"), caches=by_layer_types, gguf=("exaone4",))
COHERE = Family(
    folder="plain", model_types=("cohere2",), caches=every_nth_full("sliding_window_pattern", 4), gguf=("cohere2",)
)


def alternating(config: ModelConfig) -> list[LayerCache | None]:
    """Sliding and full in turn, unless `layer_types` says otherwise."""
    pair = [window_of(config), FULL]
    return by_layer_types(config, [pair[i % 2] for i in range(config.layers)])


GPT_OSS = Family(folder="plain", model_types=("gpt_oss",), caches=alternating, gguf=("gpt-oss",))
RECURRENT_ALONE = Family(
    folder="plain", model_types=("mamba", "mamba2", "rwkv7"), caches=every(RECURRENT), gguf=("mamba", "mamba2")
)
FAMILIES = (FULL_ATTENTION, LAYERS_BY_TYPE, COHERE, GPT_OSS, RECURRENT_ALONE)
