"""What eredu must know of a family before any weight is read, as a value: each folder's `facts.py` makes one.

Whoever needs the cache kinds, tensor names or capability of a family asks this value, which
`eredu.families.registry` finds by `model_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eredu.checkpoints.caches import FULL, LayerCache
from eredu.checkpoints.config import ModelConfig
from eredu.contract.errors import CheckpointError

MAX_HEADS = 1_000
"""Past any checkpoint there is: a larger number is a damaged or hostile file."""

CacheRule = Callable[[ModelConfig], "list[LayerCache | None]"]
"""Cache of every layer, None where a layer has none."""


@dataclass(frozen=True, slots=True)
class HeadClaim:
    """Heads that a config claims.

    Attributes:
        count: How many.
        prefixes: Prefixes of their tensors, without the wrappers' (`model.`, `language_model.`).
        required: Tensors that must be there, experts under one name whatever form they are stored in.
        stated: Whether the config says so; else it is what the family publishes, and the tensors decide.
    """

    count: int
    prefixes: tuple[str, ...]
    required: tuple[str, ...]
    stated: bool = True


@dataclass(frozen=True, kw_only=True)
class HeadFacts:
    """A family's prediction heads.

    Attributes:
        claim: What a config claims.
        runs: Whether eredu runs them: `heads.py` of the family's folder loads them.
        inside: Whether the family's own checkpoints hold them, else directories of heads alone do.
        cache: What each of them keeps.
    """

    claim: Callable[[ModelConfig], HeadClaim]
    runs: bool = True
    inside: bool = True
    cache: LayerCache = FULL


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of models.

    Attributes:
        folder: Its folder in `eredu.families`.
        model_types: Names in config.json.
        caches: What its layers keep; what mlx-lm's class of the family makes.
        heads: Its prediction heads; None where it has none.
        assistants: `model_type`s of checkpoints that only propose for one target of the family.
        assumed: Settings that mlx-lm's class takes for granted, by key: a config that says otherwise is another model.
            A missing key has the published default, which is what the class computes.
        implied: Values that follow from other keys, which count instead of what the config says under their names.
        dropped: Tensors that mlx-lm's class drops although the decoder is another model without them: the ending of
            their names behind the module that holds them, by that module's class. They are loaded all the same.
        decoders: Names under which mlx-lm has the decoder, by `model_type`, where they differ.
        even_attention: Whether attention has the config's heads and width in every layer.
        lends_attention: Those of mlx-lm's decoders that attend by one call of `scaled_dot_product_attention`, with
            nothing but a causal mask, so that a cache may attend for itself.
        gguf: Its architectures in GGUF files.
        gguf_assistants: Architectures in GGUF files of its assistants.
        gguf_cache: What every layer keeps, where the metadata of a GGUF do not show it.
    """

    folder: str
    model_types: tuple[str, ...]
    caches: CacheRule
    heads: HeadFacts | None = None
    assistants: tuple[str, ...] = ()
    assumed: Mapping[str, Any] = field(default_factory=dict)
    implied: Callable[[ModelConfig], Mapping[str, Any]] = lambda _: {}
    dropped: Mapping[str, str] = field(default_factory=dict)
    decoders: Mapping[str, str] = field(default_factory=dict)
    even_attention: bool = False
    lends_attention: tuple[str, ...] = ()
    gguf: tuple[str, ...] = ()
    gguf_assistants: tuple[str, ...] = ()
    gguf_cache: LayerCache | None = None

    @property
    def head_types(self) -> tuple[str, ...]:
        """`model_type`s whose heads are known, in front of the ending of a directory of heads alone."""
        return () if self.heads is None else self.model_types


COUNT_KEYS = ("num_nextn_predict_layers", "num_mtp_layers")
"""Keys that count heads; Transformers writes the second for the first."""


def claimed_heads(config: ModelConfig, *keys: str, default: int = 1) -> tuple[int, bool]:
    """Heads that the first of these keys (`COUNT_KEYS` unless given) claims, and whether any does.

    `default` is what the family publishes. Raises `CheckpointError` for anything but a sensible whole number.
    """
    stated = next((key for key in keys or COUNT_KEYS if config.get(key) is not None), None)
    return (default, False) if stated is None else (config.count(stated, most=MAX_HEADS), True)


def weights(prefix: str, *stems: str) -> list[str]:
    """Names of the weights of several modules behind a prefix."""
    return [f"{prefix}{stem}.weight" for stem in stems]


def attention_weights(prefix: str) -> list[str]:
    """Names of the projections of plain attention in the layer behind a prefix."""
    return weights(f"{prefix}self_attn.", "q_proj", "k_proj", "v_proj", "o_proj")


def fused_weights(count: int, *stems: str) -> list[str]:
    """Names of the weights of heads that share all but their layers, as Qwen publishes them.

    `stems` are the modules of each layer beside its norms and its attention's projections.
    """
    required = weights("mtp.", "fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    for layer in (f"mtp.layers.{number}." for number in range(count)):
        required += [*weights(layer, "input_layernorm", "post_attention_layernorm"), *attention_weights(layer)]
        required += weights(layer, *stems)
    return required


def unknown_heads(config: ModelConfig) -> HeadClaim | None:
    """Heads that a config counts in a family whose heads eredu knows nothing of: layers behind the last, or `mtp…`.

    None where it counts none. The decoder is loaded without their tensors.
    """
    count, stated = claimed_heads(config, "mtp_num_hidden_layers", *COUNT_KEYS)
    if not stated or not count:
        return None
    behind = (f"layers.{config.layers + i}." for i in range(count))
    return HeadClaim(count, (*behind, "mtp.", "mtp_"), ())


def layers_behind_the_last(config: ModelConfig) -> HeadClaim:
    """The claim of families whose heads are decoder layers numbered on behind the target's."""
    (count, stated), depth = claimed_heads(config), config.layers
    prefixes = tuple(f"layers.{depth + i}." for i in range(count))
    stems = ("enorm", "hnorm", "eh_proj", "shared_head.norm", "input_layernorm", "self_attn.o_proj")
    return HeadClaim(count, prefixes, tuple(name for prefix in prefixes for name in weights(prefix, *stems)), stated)


def unknown_family(config: ModelConfig, what: str, known: Iterable[str]) -> CheckpointError:
    """The error of a `model_type` whose facts eredu lacks."""
    return CheckpointError(
        f"{config.path} names the model_type {config.model_type!r}, whose {what} eredu does not know; known are "
        f"{', '.join(sorted(known))}"
    )
