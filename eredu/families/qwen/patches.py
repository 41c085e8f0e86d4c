"""Patches of mlx-lm's Qwen3-Next and Qwen3.5: the gated delta rule of a block row by row, each state noted."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.mlx_lm_patches import NOTED_ROWS, Patch, override
from eredu.mlx.gated_rows import lend_gated_delta
from eredu.mlx.taps import note_states


def _gated_delta(original: type[Any]) -> dict[str, Any]:
    """The recurrence in turn, its state noted behind each row; its formula is the same for one row and several."""
    lending = lend_gated_delta(original)

    def call(self: Any, inputs: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        block = cache is not None and mask is None and inputs.shape[0] == 1 and 1 < inputs.shape[1] <= NOTED_ROWS
        with lending((lambda states: note_states(self, states)) if block else None):
            return cast(mx.array, original.__call__(self, inputs, mask, cache))

    return {"__call__": call}


PATCHES = (
    Patch(
        name="gated delta rows",
        reason="mlx-lm keeps the state behind the last row of a block alone, and a rollback wants that of any row.",
        classes=("qwen3_5.GatedDeltaNet", "qwen3_next.Qwen3NextGatedDeltaNet"),
        change=lambda module: override(module, _gated_delta),
        of_blocks=True,
    ),
)
