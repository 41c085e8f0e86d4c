"""Patch of mlx-lm's Step 3.5: layers with a sliding window keep what the window has passed."""

from __future__ import annotations

from typing import Any

from eredu.families.mlx_lm_patches import Patch, override
from eredu.mlx.caches.whole_window import WholeWindowCache


def keep_rows(original: type[Any]) -> dict[str, Any]:
    """Caches that roll back by length in every layer."""

    def make_cache(self: Any) -> list[Any]:
        made = original.make_cache(self)
        sliding = (layer.is_sliding for layer in self.layers)
        window = self.args.sliding_window
        return [WholeWindowCache(window) if slides else cache for slides, cache in zip(sliding, made, strict=True)]

    return {"make_cache": make_cache}


PATCHES = (
    Patch(
        name="kept windows",
        reason="mlx-lm overwrites the rows that a window has passed, which a rejected block would need again, and keys "
        "lie in another order for a block than for its rows.",
        classes=("step3p5.Model",),
        change=lambda module: override(module, keep_rows),
        of_blocks=True,
    ),
)
