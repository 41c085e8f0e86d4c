"""Routing of experts in groups, as published: an expert of a group that was not chosen is never taken.

Adding one constant to all correction biases changes no choice within or between groups, for the experts' weights come
from the scores without them, and lifts every score above 0, which makes mlx-lm's rule the published one.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from eredu.families.mlx_lm_patches import Patch

BIAS = "e_score_correction_bias"


def group_routing(*classes: str) -> Patch:
    """The patch of gates that route in groups."""
    return Patch(
        name="group routing",
        reason="mlx-lm scores the experts of the groups left out as 0, and sigmoid score plus correction bias may be "
        "below 0, so such an expert could beat those of the chosen groups. DeepSeek's own inference code and "
        "Transformers score them as minus infinity.",
        classes=classes,
        change=lift_correction_bias,
    )


def lift_correction_bias(gate: Any) -> None:
    """Make the biases of group routing positive, in float32. Doing it again changes nothing."""
    lowest = gate[BIAS].astype(mx.float32).min().item()
    if (gate.n_group or 1) > 1 and lowest <= 0:
        gate[BIAS] = gate[BIAS].astype(mx.float32) + (1 - lowest)
