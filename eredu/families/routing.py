"""Routing of experts in groups, as published: an expert of a group that was not chosen is never taken.

mlx-lm scores the experts of the groups left out as 0, and sigmoid score plus correction bias may be below 0, so such
an expert could beat those of the chosen groups. DeepSeek's own inference code and Transformers score them as minus
infinity. Adding one constant to all correction biases changes no choice within or between groups, for the experts'
weights come from the scores without them, and lifts every score above 0, which makes the two rules one.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

BIAS = "e_score_correction_bias"
FAMILIES = frozenset({"deepseek_v3", "deepseek_v32", "nemotron_h"})
"""Modules of mlx-lm whose gates route so."""


def lift_correction_biases(model: nn.Module) -> None:
    """Make all biases of group routing positive, in float32. Doing it again changes nothing."""
    for _, module in model.named_modules():
        gate = cast(Any, module)
        if BIAS not in gate or type(module).__module__.rpartition(".")[2] not in FAMILIES:
            continue
        lowest = gate[BIAS].astype(mx.float32).min().item()
        if (gate.n_group or 1) > 1 and lowest <= 0:
            gate[BIAS] = gate[BIAS].astype(mx.float32) + (1 - lowest)
