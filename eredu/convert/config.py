"""config.json of a conversion: as the decoder's class is to read it, and true to what lies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.checkpoints.config import NESTED, ModelConfig
from eredu.checkpoints.decoder_config import DTYPE_KEYS
from eredu.checkpoints.family import COUNT_KEYS
from eredu.checkpoints.quantisation import with_quantisation
from eredu.convert.source import Source

DROPPED = ("vision_config", "audio_config", "_name_or_path", "auto_map")
"""Of parts and code that a conversion does not hold."""
HEAD_KEYS = (*COUNT_KEYS, "wiring", "max_proposals")
"""Keys that describe heads, besides those that begin with `mtp`."""


def converted_config(source: Source, settings: Mapping[str, Any] | None, dtype: str | None) -> dict[str, Any]:
    """The config to write.

    Args:
        source: Trunk and heads.
        settings: MLX's quantisation; None where nothing is quantised.
        dtype: The type to which floats were cast; None where they are as they were.
    """
    trunk = source.trunk
    config = {key: value for key, value in trunk.decoder_config.items() if key not in DROPPED}
    config["model_type"] = trunk.decoder
    if source.is_joined:
        config = _on_each_level(config, _about_heads(source.heads.config))
    if dtype is not None:
        config = _with_dtype(config, dtype)
    return with_quantisation(config, settings)


def _about_heads(config: ModelConfig) -> dict[str, Any]:
    keys = {key for level in (config.values, config.decoder) for key in level}
    return {key: config.get(key) for key in sorted(keys) if key in HEAD_KEYS or key.startswith("mtp")}


def _on_each_level(config: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    nested = config.get(NESTED)
    return {**config, **more, **({NESTED: {**nested, **more}} if isinstance(nested, dict) else {})}


def _with_dtype(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The type wherever a level states one, and on the decoder's in any case."""

    def said(level: dict[str, Any]) -> dict[str, Any]:
        return {key: dtype if key in DTYPE_KEYS else value for key, value in level.items()}

    nested = config.get(NESTED)
    level = said(nested if isinstance(nested, dict) else config)
    if not any(key in level for key in DTYPE_KEYS):
        level["torch_dtype"] = dtype
    return {**said(config), NESTED: level} if isinstance(nested, dict) else level
