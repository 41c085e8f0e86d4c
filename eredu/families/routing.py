"""Routing of experts in groups, as published: an expert of a group that was not chosen is never taken.

mlx-lm scores the experts of the groups left out as 0, and sigmoid score plus correction bias may be below 0, so such
an expert could beat those of the chosen groups. DeepSeek's own inference code and Transformers score them as minus
infinity. Adding one constant to all correction biases changes no choice within or between groups, and lifts every
score above 0, which makes the two rules one.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

BIAS = "e_score_correction_bias"


def lift_correction_biases(model: nn.Module) -> None:
    """Make all biases of group routing positive, in float32. Doing it again changes nothing."""
    for _, module in model.named_modules():
        gate = cast(Any, module)
        if BIAS not in gate or getattr(gate, "n_group", 1) <= 1:
            continue
        lowest = gate[BIAS].astype(mx.float32).min().item()
        if lowest <= 0:
            gate[BIAS] = gate[BIAS].astype(mx.float32) + (1 - lowest)
