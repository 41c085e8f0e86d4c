"""What each layer remembers of the tokens before, and whether a rejected suffix can be taken back exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from eredu.checkpoints.config import ModelConfig
from eredu.contract.errors import CheckpointError


class CacheKind(StrEnum):
    """What one layer keeps."""

    FULL = "full-attention"
    """Keys and values of every token."""
    LATENT = "latent-attention"
    """One compressed row for every token (multi-head latent attention), index keys where there is an indexer."""
    WINDOW = "sliding-window"
    """Keys and values of the last tokens."""
    CHUNKED = "chunked-attention"
    """Keys and values of the current chunk."""
    RECURRENT = "recurrent"
    """A state of fixed size (state space, gated delta, convolution tails)."""
    COMPRESSED = "compressed"
    """Pooled groups of tokens beside a window."""


class Rollback(StrEnum):
    """How a rejected suffix is taken back."""

    EXACT = "exact"
    """By length, where row i is a function of tokens 0 to i alone and is still held; or, for a state that eredu can
    follow, by running its recurrence alone again over the rows that stay."""
    NOT_YET = "not yet"
    """A rejected token has overwritten what is needed to go back. Speculation is refused."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Cache of one layer.

    Attributes:
        kind: What it keeps.
        window: Tokens that a sliding window holds.
        followed: Whether eredu knows the recurrence of a recurrent layer (`recurrence.py` of the family's folder).
    """

    kind: CacheKind
    window: int | None = None
    followed: bool = False


FULL = LayerCache(CacheKind.FULL)
LATENT = LayerCache(CacheKind.LATENT)
RECURRENT = LayerCache(CacheKind.RECURRENT)
FOLLOWED = LayerCache(CacheKind.RECURRENT, followed=True)
COMPRESSED = LayerCache(CacheKind.COMPRESSED)


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Layers with one kind of cache.

    Attributes:
        kind: What they keep.
        layers: How many they are; None where the file does not say.
        window: Tokens of their sliding window, if they have one.
        rollback: Whether a rejected suffix can be taken back.
    """

    kind: CacheKind
    layers: int | None
    window: int | None
    rollback: Rollback

    def to_json(self) -> dict[str, str | int | None]:
        """The stable form."""
        return {"kind": self.kind, "layers": self.layers, "window": self.window, "rollback": self.rollback}


def rollback_of(cache: LayerCache) -> Rollback:
    """How a layer's cache is rolled back."""
    exact = cache.kind in {CacheKind.FULL, CacheKind.LATENT, CacheKind.WINDOW} or cache.followed
    return Rollback.EXACT if exact else Rollback.NOT_YET


def summarize_caches(layers: Iterable[LayerCache | None]) -> tuple[CacheReport, ...]:
    """Group layers by cache, in the order of their first layer; layers without a cache are left out."""
    counts = Counter(layer for layer in layers if layer is not None)
    return tuple(CacheReport(cache.kind, count, cache.window, rollback_of(cache)) for cache, count in counts.items())


# ---- rules that several families share: the caches that mlx-lm's class of the family makes -------------------------


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
        raise CheckpointError(
            f"{config.path} gives num_hidden_layers as {config.layers}, and names {len(types)} layer_types; expected "
            "one for each layer"
        )
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
