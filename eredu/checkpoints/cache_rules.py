"""Rules that several families share: what a config.json says of its layers' caches.

The caches are those that the mlx-lm class of the family makes, so that a report agrees with what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

from eredu.checkpoints.caches import FULL, RECURRENT, CacheKind, LayerCache
from eredu.checkpoints.config import ModelConfig
from eredu.contract.errors import CheckpointError


def every(cache: LayerCache) -> Callable[[ModelConfig], list[LayerCache | None]]:
    """The same cache in every layer."""
    return lambda config: [cache] * config.layers


def window_of(config: ModelConfig) -> LayerCache:
    """A sliding window of the config's size."""
    return LayerCache(CacheKind.WINDOW, config.count("sliding_window"))


def by_layer_types(
    config: ModelConfig, default: list[LayerCache | None] | None = None, *, linear: LayerCache = RECURRENT
) -> list[LayerCache | None]:
    """Caches that `layer_types` names; where it is absent, `default`, or full attention everywhere.

    Args:
        config: The config.
        default: A cache a layer.
        linear: What a layer of linear attention keeps.

    Raises `CheckpointError` for unknown types, and for more or fewer of them than layers.
    """
    types = config.strings("layer_types")
    if types is None:
        return [FULL] * config.layers if default is None else default
    if len(types) != config.layers:
        raise CheckpointError(f"{config.path} names {len(types)} layer_types for {config.layers} layers")
    known: dict[str, Callable[[], LayerCache]] = {
        "full_attention": lambda: FULL,
        "sliding_attention": lambda: window_of(config),
        "linear_attention": lambda: linear,
        "chunked_attention": lambda: LayerCache(CacheKind.CHUNKED),
    }
    unknown = sorted(set(types) - known.keys())
    if unknown:
        raise CheckpointError(f"{config.path} names the layer type {unknown[0]!r}; known are {', '.join(known)}")
    return [known[kind]() for kind in types]


def every_nth_full(key: str, default: int) -> Callable[[ModelConfig], list[LayerCache | None]]:
    """A window everywhere but in each n-th layer, unless `layer_types` says otherwise; `key` of the config gives n."""

    def rule(config: ModelConfig) -> list[LayerCache | None]:
        n = max(1, config.count(key, default))
        return by_layer_types(config, [FULL if i % n == n - 1 else window_of(config) for i in range(config.layers)])

    return rule
