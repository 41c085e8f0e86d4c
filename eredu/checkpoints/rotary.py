"""Rotary settings of a config.json, wherever its writer put them.

Transformers 5 writes `rope_parameters`; earlier releases wrote `rope_theta`, `rope_scaling` and
`partial_rotary_factor` at the top. Many of mlx-lm's classes read the old keys alone and fall back to a default theta
without a word, so both forms are given to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NESTED = "rope_parameters"


def with_flat_rotary(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with the old keys filled in from `rope_parameters`, at the top and in `text_config`.

    A key that is there already stays. Settings that differ by kind of layer have no old form, and are left alone.
    """
    flat = _flattened(config)
    text = config.get("text_config")
    return flat | {"text_config": _flattened(text)} if isinstance(text, Mapping) else flat


def _flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    nested = config.get(NESTED)
    if not isinstance(nested, Mapping) or "rope_theta" not in nested:
        return dict(config)
    old: dict[str, Any] = {"rope_theta": nested["rope_theta"]}
    if nested.get("rope_type", nested.get("type", "default")) != "default":
        old["rope_scaling"] = {key: value for key, value in nested.items() if key != "rope_theta"}
    if "partial_rotary_factor" in nested:
        old["partial_rotary_factor"] = nested["partial_rotary_factor"]
    return old | {key: value for key, value in config.items() if value is not None or key not in old}
