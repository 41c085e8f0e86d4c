"""What a config.json says of its layers' caches, family by family (the `model_type` of Hugging Face).

The caches are those that the mlx-lm class of the family makes, so that a report agrees with what is loaded. A family
that is not listed is refused by inspection: guessing that its caches roll back would be the one mistake that
speculation cannot survive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eredu.checkpoints.caches import CacheKind, LayerCache
from eredu.checkpoints.config import ModelConfig
from eredu.contract.errors import CheckpointError

FULL = LayerCache(CacheKind.FULL)
LATENT = LayerCache(CacheKind.LATENT)
RECURRENT = LayerCache(CacheKind.RECURRENT)
FOLLOWED = LayerCache(CacheKind.RECURRENT, followed=True)
COMPRESSED = LayerCache(CacheKind.COMPRESSED)

CacheRule = Callable[[ModelConfig], "list[LayerCache | None]"]


def _every(cache: LayerCache) -> CacheRule:
    return lambda config: [cache] * config.layers


def _window(config: ModelConfig) -> LayerCache:
    return LayerCache(CacheKind.WINDOW, config.count("sliding_window"))


def _by_layer_types(
    config: ModelConfig, default: list[LayerCache | None], *, linear: LayerCache = RECURRENT
) -> list[LayerCache | None]:
    """Caches that `layer_types` names; `default` where it is absent."""
    types = config.strings("layer_types")
    if types is None:
        return default
    if len(types) != config.layers:
        raise CheckpointError(f"{config.path} names {len(types)} layer_types for {config.layers} layers")
    known: dict[str, Callable[[], LayerCache]] = {
        "full_attention": lambda: FULL,
        "sliding_attention": lambda: _window(config),
        "linear_attention": lambda: linear,
        "chunked_attention": lambda: LayerCache(CacheKind.CHUNKED),
    }
    unknown = sorted(set(types) - known.keys())
    if unknown:
        raise CheckpointError(f"{config.path} names the layer type {unknown[0]!r}; known are {', '.join(known)}")
    return [known[kind]() for kind in types]


def _typed(config: ModelConfig) -> list[LayerCache | None]:
    """Full attention unless `layer_types` says otherwise."""
    return _by_layer_types(config, [FULL] * config.layers)


def _alternating(config: ModelConfig) -> list[LayerCache | None]:
    """gpt-oss: sliding and full in turn, unless `layer_types` says otherwise."""
    pair = [_window(config), FULL]
    return _by_layer_types(config, [pair[i % 2] for i in range(config.layers)])


def _every_nth_full(key: str, default: int) -> CacheRule:
    """A window everywhere but in each n-th layer."""

    def rule(config: ModelConfig) -> list[LayerCache | None]:
        n = max(1, config.count(key, default))
        return _by_layer_types(config, [FULL if i % n == n - 1 else _window(config) for i in range(config.layers)])

    return rule


def _gemma4(config: ModelConfig) -> list[LayerCache | None]:
    """The last `num_kv_shared_layers` read the caches of earlier layers and have none."""
    own = max(0, config.layers - config.count("num_kv_shared_layers", 0))
    return [*_every_nth_full("sliding_window_pattern", 5)(config)[:own], *[None] * (config.layers - own)]


def _gated_delta(config: ModelConfig) -> list[LayerCache | None]:
    """Qwen3-Next and 3.5: full attention in each `full_attention_interval`-th layer."""
    n = max(1, config.count("full_attention_interval", 4))
    return _by_layer_types(
        config, [FULL if i % n == n - 1 else FOLLOWED for i in range(config.layers)], linear=FOLLOWED
    )


def _nemotron_h(config: ModelConfig) -> list[LayerCache | None]:
    """Pattern of M (state space), * (attention), - and E (feed-forward, no cache)."""
    pattern = config.get("hybrid_override_pattern")
    known = {"M": FOLLOWED, "*": FULL, "-": None, "E": None}
    if not isinstance(pattern, str):
        words = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
        pattern = "".join(words.get(word, "?") for word in config.strings("layers_block_type") or ())
    if not pattern or set(pattern) - known.keys():
        raise CheckpointError(
            f"{config.path} gives hybrid_override_pattern (or layers_block_type) as {pattern!r}; expected one of "
            f"{', '.join(known)} for every layer"
        )
    return [known[letter] for letter in pattern]


def _convolved(config: ModelConfig) -> list[LayerCache | None]:
    """Inkling: attention with convolution tails beside it in every layer."""
    return [RECURRENT] * config.layers


FULL_ATTENTION = (
    "cohere", "deepseek", "dots1", "ernie4_5", "ernie4_5_moe", "exaone", "gemma", "gemma2", "glm", "glm4", "glm4_moe",
    "gpt_neox", "granite", "granitemoe", "helium", "internlm2", "internlm3", "minicpm",
    "mixtral", "nemotron", "olmo2", "olmoe", "phi", "phi3", "phimoe", "qwen", "qwen2", "qwen2_moe",
    "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2",
)  # fmt: skip
"""Families whose mlx-lm class keeps plain keys and values in every layer, whatever the config says of windows."""

CACHE_RULES: Mapping[str, CacheRule] = {
    **dict.fromkeys(FULL_ATTENTION, _every(FULL)),
    **dict.fromkeys(("llama", "mistral", "ministral3"), _typed),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "deepseek_v32"), _every(LATENT)),
    "deepseek_v4": _every(COMPRESSED),
    "gpt_oss": _alternating,
    "cohere2": _every_nth_full("sliding_window_pattern", 4),
    **dict.fromkeys(("gemma3", "gemma3_text"), _every_nth_full("sliding_window_pattern", 6)),
    **dict.fromkeys(("gemma4", "gemma4_text"), _gemma4),
    **dict.fromkeys(("olmo3", "exaone4", "muse_glimmer"), _typed),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"), _gated_delta),
    "nemotron_h": _nemotron_h,
    **dict.fromkeys(("mamba", "mamba2", "rwkv7"), _every(RECURRENT)),
    "inkling": _convolved,
}
ASSISTANTS = frozenset({"gemma4_assistant", "muse_glimmer_assistant"})
"""Checkpoints that only propose for one target: they have no law of their own to decode from."""


def layer_caches(config: ModelConfig) -> list[LayerCache | None]:
    """Cache of every layer, None where a layer has none. Raises `CheckpointError` for an unknown family."""
    rule = CACHE_RULES.get(config.model_type)
    if rule is None:
        raise CheckpointError(
            f"{config.path} names the model_type {config.model_type!r}, whose caches eredu does not know; known are "
            f"{', '.join(sorted({*CACHE_RULES, *ASSISTANTS}))}"
        )
    return rule(config)
