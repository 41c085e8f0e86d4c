"""The only module that imports mlx-lm. Its surface is small, typed here, and pinned by a contract test.

mlx-lm changes signatures between releases, so whatever eredu uses of it passes through these functions. The contract
test lists what is relied on, in families' patches too, and compares it with the installed release.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Protocol, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path, tree_unflatten
from mlx_lm.models import llama
from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache, make_prompt_cache
from mlx_lm.models.gated_delta import compute_g as gated_delta_decay
from mlx_lm.models.gated_delta import gated_delta_update, normalize_qk
from mlx_lm.models.mla import MultiLinear, QuantizedMultiLinear
from mlx_lm.models.ssm import ssm_update
from mlx_lm.utils import _get_classes, dequantize_model, infer_quant_config, load_model, quantize_model, save_model

from eredu.checkpoints.decoder_config import stated_dtype
from eredu.checkpoints.directory import OpenedDirectory
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.mlx.fp8 import dequantised
from eredu.mlx.restoring import restore_dropped
from eredu.mlx.rotary_scaling import require_scaling

__all__ = [
    "CacheList",
    "gated_delta_decay",
    "gated_delta_update",
    "normalize_qk",
    "ssm_update",
]
"""What is passed on as mlx-lm has it."""

WIDE = "float32"
_EXPERT = re.compile(r"^(.*\.mlp)\.experts\.(\d+)\.((?:gate|up|down)_proj\.weight)$")
AppendCache = KVCache
"""mlx-lm's plain key-value cache, which eredu's cache extends."""


def window_of_cache(cache: Any) -> int | None:
    """Rows that a cache of mlx-lm holds of a sliding window; None for other caches, and with a start that stays."""
    return int(cache.max_size) if type(cache) is RotatingKVCache and cache.keep == 0 else None


class LanguageModel(Protocol):
    """A decoder that mlx-lm built: token ids (1, n) and caches to logits (1, n, vocabulary)."""

    def __call__(self, inputs: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Feed tokens behind what the caches hold."""


@dataclass(frozen=True)
class Split:
    """How one decoder is held by several ranks, all of which feed it the same tokens in step.

    Attributes:
        kind: `tensor` cuts every layer, `pipeline` gives each rank some of the layers.
        group: The ranks.
    """

    kind: str
    group: mx.distributed.Group


def load_directory(
    source: OpenedDirectory | Path,
    *,
    apart: Callable[[str], bool] = lambda _: False,
    dtype: str | None = None,
    split: Split | None = None,
) -> tuple[LanguageModel, dict[str, Any]]:
    """Model and config of a Hugging Face directory, weights evaluated; never runs code from it.

    mlx-lm would take every `model*.safetensors` that lies there, listed by the index or not, and read config.json its
    own way. So it is shown a folder with exactly the trunk's files, and with the config as eredu reads it.
    Tensors whose stored names are `apart` are not the decoder's: mlx-lm does not see them. `dtype` is the type that
    floats will be cast to, if they will be. Weights in eight bits are read in it, else in the config's type; and for
    float32 vectors are widened first: mlx-lm adds one to norm offsets in the stored type, and a bfloat16 sum drops most
    of the offset.
    With a `split` only this rank's share of the weights is brought to memory.

    Raises `CheckpointError` with what mlx-lm found wrong, `CapabilityError` where it cannot split the family so.
    """
    opened = OpenedDirectory(source) if isinstance(source, Path) else source
    model, config = build_directory(opened, apart=apart, dtype=dtype)
    if split is not None:
        _divide(model, split)
    evaluate_model(model)
    return cast(LanguageModel, model), config


def build_directory(
    opened: OpenedDirectory, *, apart: Callable[[str], bool], dtype: str | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    """The model with weights that are not read yet, and its config: what shows whether a directory can be loaded.

    Raises `CheckpointError` with what mlx-lm found wrong.
    """
    opened.check()
    opened.require_assumed()

    def prepare(arrays: dict[str, mx.array]) -> dict[str, mx.array]:
        own = {name: array for name, array in plain_floats(opened, arrays, dtype).items() if not apart(name)}
        return widened(own) if dtype == WIDE else own

    try:
        with _shown(opened) as folder:
            model, config = load_model(
                folder,
                lazy=True,
                get_model_classes=partial(_classes, prepare, opened),
                trust_remote_code=False,
            )
    except CheckpointError:
        raise
    except Exception as error:  # whatever a strange config makes foreign code raise
        raise CheckpointError(f"mlx-lm cannot load the checkpoint in {opened.path}: {error!r}") from error
    require_scaling(model, config, opened.path)
    return cast(nn.Module, model), config


@contextmanager
def _shown(opened: OpenedDirectory) -> Iterator[Path]:
    """A folder that links to the files under names that mlx-lm takes; open files outlive it."""
    with tempfile.TemporaryDirectory(prefix="eredu-") as name:
        folder = Path(name)
        for number, header in enumerate(opened.trunk):
            (folder / f"model-{number:05}.safetensors").symlink_to(header.path.resolve())
        (folder / "config.json").write_text(json.dumps(opened.decoder_config), encoding="utf-8")
        yield folder


def _divide(model: Any, split: Split) -> None:
    """Keep this rank's share, by mlx-lm's own support."""
    outer = getattr(model, "language_model", model)
    decoder = getattr(outer, "model", None)
    divide = getattr(model, "shard", None) if split.kind == "tensor" else getattr(decoder, "pipeline", None)
    if divide is None:
        raise CapabilityError(
            f"mlx-lm has no {split.kind} split for {type(model).__module__.rpartition('.')[2]}; try the other of "
            "tensor and pipeline, or a target that fits into one machine"
        )
    whole = outer.get("lm_head")
    _try_split(lambda: divide(split.group), split)
    if whole is not None and outer.lm_head is not whole:
        # Prediction heads project with it too, so every rank keeps all of it.
        outer.lm_head, outer.sharding_group = whole, None


def confirm_split(model: LanguageModel, split: Split) -> None:
    """Feed one token, on every rank, once the weights have their types. Raises `CapabilityError` where that fails.

    Heads that the ranks do not divide fail only here; and a rank of a pipeline takes what it receives for numbers of
    the embedding's type, so layers that give another one would be misread without an error.
    """
    whole: Any = model
    decoder = getattr(whole, "language_model", whole).model
    if split.kind == "pipeline":
        embedded = decoder.embed_tokens(mx.zeros((1, 1), dtype=mx.uint32))
        given = embedded
        for layer in decoder.pipeline_layers:
            given = layer(given, mask=None, cache=None)
        strange = mx.distributed.all_sum(mx.array(int(given.dtype != embedded.dtype)), group=split.group)
        if strange.item():
            raise CapabilityError(
                f"layers of this target give another type than its embedding's {embedded.dtype}, which mlx-lm's "
                "pipeline cannot pass on; cast it, with --dtype float32 or bfloat16"
            )
    _try_split(lambda: mx.eval(whole(mx.zeros((1, 1), dtype=mx.uint32))), split)


def _try_split(step: Callable[[], Any], split: Split) -> None:
    try:
        step()
    except Exception as error:  # foreign code fails in many ways, on every rank alike
        raise CapabilityError(
            f"mlx-lm cannot split this target over {split.group.size()} ranks: {error!r}; try another number of them"
        ) from error


def _classes(
    prepare: Callable[[dict[str, mx.array]], dict[str, mx.array]], opened: OpenedDirectory, config: dict[str, Any]
) -> tuple[type[nn.Module], Any]:
    """mlx-lm's classes for a config; the model's prepares the tensors before mlx-lm looks at them."""
    original, arguments = _get_classes({**config, "model_type": opened.decoder})
    dropped = {} if opened.family is None else opened.family.dropped

    def sanitize(self: Any, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        own = prepare(weights)
        restored = restore_dropped(self, own, dropped, class_of, opened.path)
        return restored | stacked_experts(original.sanitize(self, own) if hasattr(original, "sanitize") else own)

    methods: dict[str, Any] = {"sanitize": sanitize, "__module__": original.__module__}
    if dropped:
        methods["cast_predicate"] = property(lambda _: lambda name: not name.endswith(tuple(dropped.values())))
    return type(original.__name__, (original,), methods), arguments


def plain_floats(opened: OpenedDirectory, arrays: Mapping[str, mx.array], dtype: str | None) -> dict[str, mx.array]:
    """Arrays by stored name, those in eight bits as floats of a type by its name, or of the config's."""
    return dequantised(arrays, opened.quantisation, getattr(mx, dtype or stated_dtype(opened.config)))


def stacked_experts(arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Experts that mlx-lm's class left one by one, stacked as its layers hold them.

    Qwen3.5's fp8 releases have a tensor an expert where its others have one of all, and mlx-lm expects the latter.
    """
    stacked: dict[str, mx.array] = {}
    single: dict[str, dict[int, mx.array]] = {}
    for name, array in arrays.items():
        found = _EXPERT.match(name)
        if found is None:
            stacked[name] = array
        else:
            single.setdefault(f"{found[1]}.switch_mlp.{found[3]}", {})[int(found[2])] = array
    return stacked | {name: mx.stack([each[number] for number in sorted(each)]) for name, each in single.items()}


def widened(arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Floating-point vectors in float32; everything else as it is."""
    narrow = (mx.float16, mx.bfloat16)
    return {
        name: array.astype(mx.float32) if array.ndim == 1 and array.dtype in narrow else array
        for name, array in arrays.items()
    }


def quantize_as_stored(module: nn.Module, arrays: Mapping[str, mx.array]) -> None:
    """Turn layers whose stored tensors have scales into packed ones, of the bits and groups that the shapes show."""

    def settings(path: str, layer: nn.Module) -> bool | dict[str, Any]:
        if not hasattr(layer, "to_quantized") or f"{path}.scales" not in arrays:
            return False
        return cast("dict[str, Any]", infer_quant_config(path, layer, dict(arrays)))

    nn.quantize(module, class_predicate=settings)


def class_of(module: object) -> str:
    """Module and class in `mlx_lm.models`, of a patched or tapped module too."""
    kind = type(module)
    return f"{kind.__module__.removeprefix('mlx_lm.models.')}.{kind.__name__}"


def evaluate_model(model: nn.Module) -> None:
    """Evaluate every array of a model, private ones (rotary frequencies) too.

    A lazy array belongs to the thread that made it, and a model may be used by another.
    """
    mx.eval([array for module in model.modules() for array in module.values() if isinstance(array, mx.array)])


def build_llama(config: dict[str, Any]) -> nn.Module:
    """A llama model without weights, from Hugging Face config keys."""
    return cast(nn.Module, llama.Model(llama.ModelArgs.from_dict(config)))


def patch_attention(model: LanguageModel) -> None:
    """Let a cache with a true `attends` attend for itself in the model's decoder (see `Family.lends_attention`).

    mlx-lm's decoders look the function up in their own module, so it is replaced there, once, by one that asks the
    cache first and is the original for every other cache.
    """
    module: Any = sys.modules[type(model).__module__]
    original = module.scaled_dot_product_attention
    if not hasattr(original, "__wrapped__"):
        module.scaled_dot_product_attention = _asking_the_cache(original)


def _asking_the_cache(original: Callable[..., mx.array]) -> Callable[..., mx.array]:
    @wraps(original)
    def attend(queries: mx.array, keys: mx.array, values: mx.array, cache: Any, scale: float, mask: Any) -> mx.array:
        if getattr(cache, "attends", False):
            return cast(mx.array, cache.attend(queries, keys, values, scale))
        return original(queries, keys, values, cache=cache, scale=scale, mask=mask)

    return attend


def make_caches(model: LanguageModel) -> list[Any]:
    """Fresh caches of the kinds that the model asks for, one a layer that needs one."""
    return list(make_prompt_cache(model))


def cast_model(model: LanguageModel, dtype: mx.Dtype, *, dequantize: bool) -> LanguageModel:
    """The model with its floating-point weights in `dtype`; quantised layers too if `dequantize`.

    What the family says must keep its type does: routing biases and decay rates, which would round to other choices.
    """
    module = cast(nn.Module, model)
    if dequantize:
        module = _unpack_latent_projections(cast(nn.Module, dequantize_model(module)))
    cast_floats(module, dtype)
    evaluate_model(module)
    return cast(LanguageModel, module)


def _unpack_latent_projections(module: nn.Module) -> nn.Module:
    """Dequantise the projections of latent attention, which mlx-lm's own function leaves packed."""
    unpacked: list[tuple[str, nn.Module]] = []
    for name, part in module.named_modules():
        if isinstance(part, QuantizedMultiLinear):
            packed: Any = part
            weight = mx.dequantize(
                packed.weight, packed.scales, packed.biases, packed.group_size, packed.bits, packed.mode
            )
            heads, outputs, inputs = weight.shape
            plain = MultiLinear(inputs, outputs, heads)
            plain.weight = weight
            unpacked.append((name, plain))
    if unpacked:
        module.update_modules(tree_unflatten(unpacked))
    return module


def cast_floats(module: nn.Module, dtype: mx.Dtype) -> None:
    """Bring floats to a type, lazily; what the family says must keep its type does."""
    floating = (mx.float32, mx.float16, mx.bfloat16)
    may_cast = getattr(module, "cast_predicate", lambda _: True)
    module.update(
        tree_map_with_path(
            lambda name, array: array.astype(dtype) if array.dtype in floating and may_cast(name) else array,
            module.parameters(),
        )
    )


def quantise_as_mlx_lm(model: nn.Module, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Quantise a decoder in place as mlx-lm's converter does, family's exceptions and all; return MLX's settings."""
    with redirect_stdout(io.StringIO()):  # where it says how many bits a weight has
        _, config = quantize_model(model, {}, settings["group_size"], settings["bits"], mode=settings["mode"])
    return dict(config["quantization"])


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write a decoder's weights and their index as mlx-lm's converter does. The model is empty behind it."""
    save_model(folder, model, donate_model=True)


def is_quantized(model: LanguageModel | nn.Module) -> bool:
    """Whether any layer holds quantised weights."""
    kinds = (nn.QuantizedLinear, nn.QuantizedEmbedding)
    return any(isinstance(module, kinds) for _, module in cast(nn.Module, model).named_modules())
