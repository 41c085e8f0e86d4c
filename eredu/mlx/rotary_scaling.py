"""Whether a decoder scales its rotary positions as its config says: many of mlx-lm's classes pass over the setting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.nn as nn

from eredu.contract.errors import CheckpointError

UNSCALED = ("default", "mrope")
"""Kinds under which text has plain rotary positions."""


def require_scaling(model: nn.Module, config: Mapping[str, Any], where: Path) -> None:
    """Raise `CheckpointError` where a config scales rotary positions and no module of the model does.

    Args:
        model: mlx-lm's.
        config: As mlx-lm reads it, rotary settings under the old key.
        where: Directory that the error names.
    """
    text = config.get("text_config")
    said = (text.get("rope_scaling") if isinstance(text, Mapping) else None) or config.get("rope_scaling")
    if not isinstance(said, Mapping):
        return
    kind = said.get("rope_type", said.get("type", "default"))
    if kind in UNSCALED or said.get("factor") == 1 or any(_is_scaled(module) for module in model.modules()):
        return
    raise CheckpointError(
        f"{where / 'config.json'} scales rotary positions ({kind}), and mlx-lm's {config.get('model_type')} does not, "
        "whatever the config says, so it would be another model. Use an engine that follows rope_scaling"
    )


def _is_scaled(module: nn.Module) -> bool:
    """Whether a module turns positions otherwise than by plain frequencies."""
    if type(module) is nn.RoPE:
        return module.scale != 1
    return any(word in type(module).__name__.lower() for word in ("rope", "rotary"))
