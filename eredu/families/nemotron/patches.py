"""Patches of mlx-lm's Nemotron-H: group routing, and the state space of a block run as decoding runs it."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx

from eredu.families.mlx_lm_patches import BLOCK_ROWS, NOTED_ROWS, Patch, override
from eredu.families.routing import group_routing
from eredu.mlx.taps import note_states


def _state_space(original: type[Any]) -> dict[str, Any]:
    """The recurrence in turn, its state noted behind each row; projections and convolution stay in one piece."""

    def recur(self: Any, x: mx.array, b: mx.array, c: mx.array, dt: mx.array, cache: Any, mask: Any) -> mx.array:
        rows = x.shape[1]
        # The underscored hook is mlx-lm's; the adapter's contract test pins it.
        step = original._ssm  # noqa: SLF001
        if cache is None or mask is not None or not 1 < rows <= BLOCK_ROWS:
            return cast(mx.array, step(self, x, b, c, dt, cache, mask))
        each, states = [], []
        for row in range(rows):
            each.append(step(self, *(part[:, row : row + 1] for part in (x, b, c, dt)), cache, None))
            states.append(cache[1])
        if rows <= NOTED_ROWS:
            note_states(self, states)
        return mx.concatenate(each, axis=1)

    return {"_ssm": recur}


PATCHES = (
    group_routing("nemotron_h.MoEGate"),
    Patch(
        name="state space rows",
        reason="mlx-lm runs Mamba 2's recurrence for one row, and its chunked form for several.",
        classes=("nemotron_h.NemotronHMamba2Mixer",),
        change=lambda module: override(module, _state_space),
        of_blocks=True,
    ),
)
