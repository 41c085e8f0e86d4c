"""Facts of Muse-Glimmer."""

from __future__ import annotations

from eredu.checkpoints.caches import by_layer_types
from eredu.checkpoints.family import Family

FAMILIES = (
    Family(
        folder="muse",
        model_types=("muse_glimmer",),
        caches=by_layer_types,
        assistants=("muse_glimmer_assistant",),
        gguf_assistants=("dflash",),
    ),
)
