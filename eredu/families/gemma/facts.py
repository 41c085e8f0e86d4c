"""Facts of Gemma 3 and 4."""

from __future__ import annotations

from eredu.checkpoints.caches import LayerCache, every_nth_full
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family

GEMMA_3 = Family(
    folder="gemma",
    model_types=("gemma3", "gemma3_text"),
    caches=every_nth_full("sliding_window_pattern", 6),
    gguf=("gemma3",),
)


def own_caches(config: ModelConfig) -> list[LayerCache | None]:
    """The last `num_kv_shared_layers` read the caches of earlier layers and have none."""
    own = max(0, config.layers - config.count("num_kv_shared_layers", 0))
    return [*every_nth_full("sliding_window_pattern", 5)(config)[:own], *[None] * (config.layers - own)]


GEMMA_4 = Family(
    folder="gemma",
    model_types=("gemma4", "gemma4_text"),
    caches=own_caches,
    assistants=("gemma4_assistant",),
    gguf=("gemma4",),
    gguf_assistants=("gemma4-assistant",),
)
FAMILIES = (GEMMA_3, GEMMA_4)
