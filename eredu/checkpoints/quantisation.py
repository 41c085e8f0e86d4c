"""How a checkpoint's weights are quantised, whoever says so, and whether eredu reads them: decided once, from headers.

The config may say it under three keys and on either level, or a file beside it, or nobody, and then the tensors do.
eredu reads weights that MLX packed, and eight-bit floats with scales; every other method is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eredu.checkpoints.config import NESTED, QUANTIZATION, ModelConfig
from eredu.checkpoints.fp8 import ACTIVATIONS, BYTES, ScaledWeight, scaled_weights
from eredu.checkpoints.quantisation_places import (
    KEYS,
    MLX_KEY,
    Statement,
    read_statements,
    settings_under,
    stated_block,
)
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError

FP8_METHODS = frozenset({"fp8", "compressed-tensors", "modelopt"})
"""Methods under whose name eight-bit floats are published; of their other forms the tensors tell."""
HANDED_ON = {"gpt_oss": "mxfp4"}
"""A family's own published packing, which mlx-lm reads as it is: the method by the `model_type`."""
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
SIGNS: tuple[tuple[str, Callable[[StoredTensor], bool]], ...] = (
    ("EETQ", lambda t: t.name.endswith(".weight_scales") or (t.name.endswith(".qweight") and t.dtype == "I8")),
    ("GPTQ or AWQ", lambda t: t.name.endswith((".qweight", ".qzeros", ".g_idx"))),
    ("compressed-tensors", lambda t: t.name.endswith((".weight_packed", ".weight_shape", ".bitmask"))),
    ("bitsandbytes", lambda t: ".quant_state." in t.name or t.name.endswith((".absmax", ".quant_map", ".SCB"))),
    ("NVFP4", lambda t: t.name.endswith((".weight_scale_2", ".weight_global_scale"))),
    ("MXFP4", lambda t: t.name.endswith("_blocks") and t.dtype == "U8"),
    ("HQQ", lambda t: t.name.endswith(".W_q")),
    ("quanto", lambda t: "._data" in t.name or t.name.endswith("._scale")),
    ("AQLM or VPTQ", lambda t: t.name.endswith((".codebooks", ".codes", ".centroids.weight"))),
    ("SpQR", lambda t: t.name.endswith((".dense_weights", ".dense_row_indices"))),
    ("fp8 in the form e5m2", lambda t: t.dtype == "F8_E5M2"),
    ("eight-bit integers", lambda t: t.dtype == "I8" and t.name.endswith("weight")),
    ("packed four-bit numbers", lambda t: t.dtype in {"F4", "U8"} and t.name.endswith("weight")),
)  # fmt: skip
"""Methods by what a tensor of theirs looks like, where no config names one."""


@dataclass(frozen=True)
class Quantisation:
    """How weights are quantised.

    Attributes:
        words: In a few words, for reports.
        scaled: Eight-bit floats and their scales.
        unread: Why eredu does not read them, in a sentence; None where it does.
        by_mlx: MLX's settings, as they are handed to mlx-lm; None where MLX did not pack the weights.
        handed_on: Whether mlx-lm reads them by what the config says, as it stands.
    """

    words: str
    scaled: tuple[ScaledWeight, ...] = ()
    unread: str | None = None
    by_mlx: Mapping[str, Any] | None = None
    handed_on: bool = False

    def is_aside(self, name: str) -> bool:
        """Whether a tensor is no weight, but a scale of weights or of activations."""
        return bool(self.scaled) and (name in self._scales or bool(ACTIVATIONS.search(name)))

    @cached_property
    def _scales(self) -> frozenset[str]:
        return frozenset(each.scale for each in self.scaled)


def read_quantisation(config: ModelConfig, tensors: Collection[StoredTensor]) -> Quantisation | None:
    """How the tensors are quantised; None where they are not.

    Raises `CheckpointError` for settings that are no object, and for scales that do not fit their weights.
    """
    packed = next((tensor for tensor in tensors if tensor.name.endswith(".qweight")), None)
    for key in (MLX_KEY, QUANTIZATION):
        settings = settings_under(config, key)
        if settings is not None and "bits" in settings and "quant_method" not in settings and packed is None:
            _require_whole(config, key, settings)
            return Quantisation(mlx_words(settings), by_mlx=settings)
        if settings is not None and key == MLX_KEY:
            given = ", ".join(sorted(settings))[:80] or "nothing"
            raise CheckpointError(f"{config.path} gives {key} with {given}; expected MLX's bits and group_size")
    said, sign = next(read_statements(config), None), _sign(tensors)
    if said is None or (said.place != str(config.path) and _all_floats(tensors)):
        if sign is not None:
            what = f"{sign[1].file} holds {sign[1].name}, so its weights are quantised by {sign[0]}"
            return Quantisation(sign[0], unread=_refusal(what))
        return _eight_bits(config, tensors, None)
    if HANDED_ON.get(config.model_type) == said.method:
        return Quantisation(said.words, handed_on=True)
    if said.method not in FP8_METHODS or sign is not None:
        how = "" if sign is None or said.method not in FP8_METHODS else f", in the form {sign[0]}"
        what = f"{said.place} says that the weights are quantised by {said.words}{how}"
        return Quantisation(said.words, unread=_refusal(what))
    return _eight_bits(config, tensors, said)


def _require_whole(config: ModelConfig, key: str, settings: Mapping[str, Any]) -> None:
    for name in ("bits", "group_size"):
        value = settings.get(name)
        if type(value) is not int or value <= 0:
            raise CheckpointError(
                f"{config.path} gives {name} of {key} as {str(value)[:60]}; expected a whole number above 0"
            )


def require_settings(config: ModelConfig, quantisation: Quantisation | None, tensors: Collection[StoredTensor]) -> None:
    """Raise `CheckpointError` for layers of a decoder that MLX packed, where the config gives no settings."""
    names = {tensor.name for tensor in tensors}
    layers = (tensor.name.removesuffix(".weight") for tensor in tensors if tensor.dtype == "U32")
    packed = next((layer for layer in layers if f"{layer}.scales" in names), None)
    if packed is not None and (quantisation is None or quantisation.by_mlx is None):
        raise CheckpointError(
            f"layer {packed!r} is packed by MLX in {config.path.parent}, and {config.path} gives no {MLX_KEY}; "
            "expected its bits and group_size: fetch config.json again, of the same conversion"
        )


def _sign(tensors: Collection[StoredTensor]) -> tuple[str, StoredTensor] | None:
    """The first method that a tensor betrays, and the tensor; MLX's packed words and eight-bit floats are none."""
    for method, shows in SIGNS:
        found = next((tensor for tensor in tensors if shows(tensor)), None)
        if found is not None:
            return method, found
    return None


def _all_floats(tensors: Collection[StoredTensor]) -> bool:
    return all(tensor.dtype in FLOATS for tensor in tensors)


def _eight_bits(config: ModelConfig, tensors: Collection[StoredTensor], said: Statement | None) -> Quantisation | None:
    """Weights in eight-bit floats, or plain ones, whatever is said of them."""
    if not any(tensor.dtype == BYTES for tensor in tensors):
        return None if said is None else Quantisation(f"none in the files, though {said.place} says {said.words}")
    block = stated_block(config, {} if said is None else said.settings)
    size = "" if block is None else f", blocks of {block[0]} × {block[1]}"
    words = "fp8" if said is None else said.words
    return Quantisation(f"{words}: e4m3{size}", scaled=scaled_weights(tensors, block, config.path.parent))


def with_quantisation(config: Mapping[str, Any], settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """A config that says of quantisation what MLX's settings say, None for none, on every level that says anything."""
    said = (MLX_KEY, *KEYS)
    bare = {key: value for key, value in config.items() if key not in said}
    nested = bare.get(NESTED)
    if isinstance(nested, Mapping):
        bare[NESTED] = {key: value for key, value in nested.items() if key not in said}
    return bare if settings is None else {**bare, MLX_KEY: settings, QUANTIZATION: settings}


def mlx_words(settings: Mapping[str, Any]) -> str:
    """MLX's settings in words."""
    default, others = _described(settings), {_described(o) for o in settings.values() if isinstance(o, Mapping)}
    mixed = sorted(others - {default})
    return f"{default}; some layers {', '.join(mixed)}" if mixed else default


def _described(settings: Mapping[str, Any]) -> str:
    return f"{settings.get('mode') or 'affine'}, {settings.get('bits')} bits, groups of {settings.get('group_size')}"


def _refusal(what: str) -> str:
    return (
        f"{what}, which eredu does not read; it reads plain weights, fp8 with scales, and MLX's own quantisation. Take "
        "the publisher's unquantised repository, or convert that one: eredu convert ORIGINAL -o DIR --bits 4"
    )
