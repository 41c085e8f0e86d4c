"""What converters make of a member: MLX's tensor names and layouts, quantised or not, with the head, without, or apart.

A file whose metadata say `mlx` is converted throughout: norm offsets have become norms, convolutions have their
channels last, experts are stacked, and latent projections are split. The head's tensors are converted like the body's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu_conformance.zoo.drawing import Tensors
from eredu_conformance.zoo.member import ZooMember
from eredu_conformance.zoo.quantising import Affine
from eredu_conformance.zoo.writing import Parts, write_directory

Arrays = dict[str, NDArray[Any]]
OFFSET_NORMS = (
    "input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden",
    "model.norm", "mtp.norm", "enorm", "hnorm", "shared_head.norm",
)  # fmt: skip
MLX_NAMES = {
    ".moe.gate.": ".mlp.gate.gate.", ".moe.router_bias": ".mlp.gate.router_bias", ".moe.": ".mlp.switch_mlp.",
    ".share_expert.": ".mlp.share_expert.", ".mlp.e_score_correction_bias": ".mlp.gate.e_score_correction_bias",
}  # fmt: skip
"""Converters' names for parts of the layers of Step 3.5 and K-EXAONE; the first that a name holds is replaced."""
_EXPERT = re.compile(r"^(?P<prefix>.*)\.experts\.(?P<number>\d+)\.(?P<part>\w+)\.weight$")
_DENSE = re.compile(r"norm|conv1d|enorm|hnorm|layernorm|mlp\.gate\.weight|mixer\.gate\.weight|mtp\.fc\.weight")


class HeadPlace(StrEnum):
    """What became of the head."""

    KEPT = "kept"
    """In the target's file, converted and quantised like the target."""
    DENSE = "dense"
    """In the target's file, converted and not quantised."""
    DROPPED = "dropped"
    """Gone, while the config still claims it: what mlx-lm's own converter does."""


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One way to convert.

    Attributes:
        default: Quantisation of every matrix that it fits; None converts without.
        others: Quantisation of the tensors whose name holds a key; None keeps those dense.
        head: What becomes of the head.
    """

    default: Affine | None = None
    others: tuple[tuple[str, Affine | None], ...] = ()
    head: HeadPlace = HeadPlace.KEPT


PLAIN = Conversion()
FOUR_BITS = Conversion(default=Affine(4))
EIGHT_BITS = Conversion(default=Affine(8))
MIXED = Conversion(default=Affine(4), others=(("down_proj", Affine(8)), ("lm_head", Affine(8, 64)), ("v_proj", None)))
CONVERSIONS = {"plain": PLAIN, "4-bit": FOUR_BITS, "8-bit": EIGHT_BITS, "mixed": MIXED}
"""Conversions by name."""


def converted_body(member: ZooMember) -> Tensors:
    """The target's tensors in MLX's layout."""
    return _renamed(_convert(member, member.body), member)


def converted_head(member: ZooMember) -> Tensors:
    """The head's tensors in MLX's layout, under their published prefix."""
    return _convert(member, member.head)


def write_converted(
    member: ZooMember, directory: Path, conversion: Conversion = PLAIN, *, parts: Parts = Parts.ONE
) -> Path:
    """Write a member as a converter would; return `directory`."""
    body, head = converted_body(member), converted_head(member)
    if conversion.head is HeadPlace.DROPPED:
        head = {}
    settings: dict[str, Any] = {}
    arrays = _quantised(body, conversion, settings)
    arrays |= head if conversion.head is HeadPlace.DENSE else _quantised(head, conversion, settings)
    config = dict(member.config)
    if conversion.default is not None:
        config["quantization"] = config["quantization_config"] = conversion.default.config | settings
    return write_directory(directory, config, arrays, parts=parts, layout="mlx")


def write_head(member: ZooMember, directory: Path, *, layout: str = "mlx", quantisation: Affine | None = None) -> Path:
    """Write the head alone, into a directory of its own.

    Args:
        member: The family.
        directory: Where.
        layout: `mlx`: converted, without the prefix `mtp.`, under a config of its own model_type, as mlx-vlm's splitter
            writes it. `pt`: the published tensors under the target's config, as a publisher's shard holds them.
        quantisation: Of the converted head's matrices.
    """
    text = dict(member.config.get("text_config", member.config))
    if layout == "pt":
        return write_directory(directory, dict(member.config), member.head)
    settings: dict[str, Any] = {}
    arrays = _quantised(converted_head(member), Conversion(default=quantisation), settings)
    config: dict[str, Any] = {
        "model_type": f"{member.head_type or member.model_type}_mtp",
        "text_config": text,
        "block_size": member.heads + 2,
        "tie_word_embeddings": bool(text["tie_word_embeddings"]),
    }
    if quantisation is not None:
        config["quantization"] = config["quantization_config"] = quantisation.config | settings
    return write_directory(
        directory, config, {name.removeprefix("mtp."): array for name, array in arrays.items()}, layout="mlx"
    )


# ---- layouts -----------------------------------------------------------------------------------------------------


def _convert(member: ZooMember, tensors: Tensors) -> Tensors:
    result: Tensors = {}
    experts: dict[str, list[np.ndarray[Any, np.dtype[np.float32]]]] = {}
    for published, array in tensors.items():
        name = _mlx_name(published)
        if found := _EXPERT.match(name):
            part = member.expert_parts.get(found["part"], found["part"])
            experts.setdefault(f"{found['prefix']}.switch_mlp.{part}.weight", []).append(array)
        elif member.offset_norms and array.ndim == 1 and name.removesuffix(".weight").endswith(OFFSET_NORMS):
            result[name] = array + np.float32(1)
        elif name.endswith("conv1d.weight"):
            result[name] = np.moveaxis(array, 2, 1)
        elif name.endswith("experts.gate_up_proj"):
            result |= _unpacked(name, array)
        elif name.endswith("experts.down_proj"):
            result[name.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = array
        elif name.endswith("kv_b_proj.weight"):
            result |= _split_latent(member, name, array)
        else:
            result[name] = array
    return result | {name: np.stack(arrays) for name, arrays in experts.items()}


def _mlx_name(name: str) -> str:
    return next((name.replace(old, new) for old, new in MLX_NAMES.items() if old in name), name)


def _unpacked(name: str, array: np.ndarray[Any, np.dtype[np.float32]]) -> Tensors:
    prefix, half = name.removesuffix("experts.gate_up_proj"), array.shape[-2] // 2
    return {
        f"{prefix}switch_mlp.gate_proj.weight": array[..., :half, :],
        f"{prefix}switch_mlp.up_proj.weight": array[..., half:, :],
    }


def _split_latent(member: ZooMember, name: str, array: np.ndarray[Any, np.dtype[np.float32]]) -> Tensors:
    """Keys' and values' projections from the latent row, one matrix a head."""
    prefix, keys = name.removesuffix("kv_b_proj.weight"), int(member.config["qk_nope_head_dim"])
    heads = array.reshape(int(member.config["num_attention_heads"]), -1, array.shape[-1])
    return {
        f"{prefix}embed_q.weight": heads[:, :keys].swapaxes(-1, -2),
        f"{prefix}unembed_out.weight": heads[:, keys:],
    }


def _renamed(tensors: Tensors, member: ZooMember) -> Tensors:
    if "text_config" not in member.config:
        return tensors
    rename: Callable[[str], str] = lambda name: (  # noqa: E731
        name.replace("model.language_model.", "language_model.model.")
        if name.startswith("model.")
        else f"language_model.{name}"
    )
    return {rename(name): array for name, array in tensors.items()}


def _quantised(tensors: Tensors, conversion: Conversion, settings: dict[str, Any]) -> Arrays:
    """Quantise what the conversion says, and note in `settings` what is not its default."""
    result: Arrays = {}
    for name, array in tensors.items():
        setting = next((other for key, other in conversion.others if key in name), conversion.default)
        if conversion.default is None or not name.endswith(".weight") or _DENSE.search(name) or array.ndim < 2:
            result[name] = array
            continue
        path = name.removesuffix(".weight")
        if setting is None or not setting.fits(array):
            result[name] = array
            settings[path] = False
            continue
        if setting != conversion.default:
            settings[path] = setting.config
        words, scales, biases = setting.quantise(array)
        result |= {name: words, f"{path}.scales": scales, f"{path}.biases": biases}
    return result
