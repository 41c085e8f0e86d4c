"""Weights as fp8 releases store them: bytes in e4m3, and scales for blocks of them, for rows, or for the whole matrix.

Publishers differ in what shares a scale, in its name and type, in what they leave out, and in where they say so. Blocks
are 128 × 128 in the releases; here they are smaller, as matrices are, and cut by the edges of most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu_conformance.zoo.drawing import Tensor, Tensors

LARGEST = 448.0
BLOCK = 24


@dataclass(frozen=True, kw_only=True)
class Fp8Form:
    """How one publisher stores fp8.

    Attributes:
        block: Rows and columns that share a scale; 0 is all of them.
        kept: Names of tensors that stay bfloat16, as a pattern.
        settings: What the release says of it.
        ending: Of the scale's name, behind the weight's.
        scale_dtype: `F32` or `BF16`.
        static: Whether a scale of the layer's inputs lies beside the weight's.
        listed: Key of the settings under which modules are listed that were left out; None where they are not.
        file: File that holds the settings, under `quantization`, in place of config.json's `quantization_config`.
        single: Whether experts are stored one by one, whatever the family does else.
    """

    block: tuple[int, int] = (BLOCK, BLOCK)
    kept: str
    settings: Mapping[str, Any]
    ending: str = "_scale_inv"
    scale_dtype: str = "F32"
    static: bool = False
    listed: str | None = None
    file: str | None = None
    single: bool = False

    def stores(self, name: str, array: Tensor) -> bool:
        """Whether a tensor is stored in bytes."""
        return array.ndim == 2 and re.search(self.kept, name) is None

    def said(self, tensors: Tensors) -> dict[str, Any]:
        """The settings, with the modules of these tensors that were left out."""
        if self.listed is None:
            return dict(self.settings)
        left = (name for name, array in tensors.items() if array.ndim > 1 and not self.stores(name, array))
        return {**self.settings, self.listed: sorted({name.removesuffix(".weight") for name in left})}


OUTER = r"embed_tokens|norm|lm_head|shared_head|conv1d"
FINE_GRAINED: Mapping[str, Any] = {
    "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK],
}  # fmt: skip
DEEPSEEK = Fp8Form(kept=rf"{OUTER}|mlp\.gate\.|eh_proj|weights_proj", settings=FINE_GRAINED)
QWEN = Fp8Form(
    kept=rf"{OUTER}|mlp\.gate\.|shared_expert_gate|in_proj_(?:ba|a|b)\.|mtp\.fc",
    settings=FINE_GRAINED, scale_dtype="BF16", listed="modules_to_not_convert", single=True,
)  # fmt: skip
ROWS = Fp8Form(
    block=(1, 0), kept=rf"{OUTER}|mlp\.gate\.|eh_proj", ending="_scale", scale_dtype="BF16", listed="ignore",
    settings={
        "quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False},
            "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
        }},
    },
)  # fmt: skip
"""compressed-tensors with a scale a row: GLM-4.5 to 4.7, and many conversions of dense models."""
MODELOPT = Fp8Form(
    block=(0, 0), kept=r"embeddings|norm|lm_head|conv1d|gate\.|[qkvo]_proj|latent|^mtp", ending="_scale", static=True,
    listed="exclude_modules", file="hf_quant_config.json",
    settings={"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
)  # fmt: skip
"""NVIDIA's exporter with one scale a matrix: Nemotron 3, whose attention and heads stay bfloat16."""


def encode(array: Tensor, block: tuple[int, int]) -> tuple[NDArray[np.uint8], Tensor]:
    """Bytes, and the scale by which each block of values is multiplied, shape (blocks of rows, blocks of columns)."""
    height, width = (given or size for given, size in zip(block, array.shape, strict=True))
    rows, columns = -(-array.shape[0] // height), -(-array.shape[1] // width)
    scales = np.empty((rows, columns), dtype=np.float32)
    words = np.empty(array.shape, dtype=np.uint8)
    order = np.argsort(VALUES[:127])
    grid = VALUES[order]
    for row in range(rows):
        for column in range(columns):
            place = np.s_[row * height : (row + 1) * height, column * width : (column + 1) * width]
            part = array[place]
            scales[row, column] = scale = _bfloat(max(float(np.abs(part).max()) / LARGEST, 1e-12))
            above = np.clip(np.searchsorted(grid, np.abs(part) / scale), 1, len(grid) - 1)
            nearer = np.abs(part) / scale - grid[above - 1] < grid[above] - np.abs(part) / scale
            words[place] = order[np.where(nearer, above - 1, above)] + 128 * (part < 0)
    return words, scales


def decode(words: NDArray[np.uint8], scales: Tensor, block: tuple[int, int]) -> Tensor:
    """The float32 values of bytes: each byte's value times its block's scale."""
    values = np.empty(words.shape, dtype=np.float32)
    for (row, column), byte in np.ndenumerate(words):
        height, width = (given or size for given, size in zip(block, words.shape, strict=True))
        values[row, column] = VALUES[byte] * scales[row // height, column // width]
    return values


def split_experts(tensors: Tensors) -> Tensors:
    """Packed experts one by one: `experts.gate_up_proj` and `experts.down_proj` as a tensor a projection."""
    single: Tensors = {}
    for name, array in tensors.items():
        if name.endswith("experts.gate_up_proj"):
            stem, half = name.removesuffix(".gate_up_proj"), array.shape[1] // 2
            for number, each in enumerate(array):
                single[f"{stem}.{number}.gate_proj.weight"], single[f"{stem}.{number}.up_proj.weight"] = (
                    each[:half],
                    each[half:],
                )
        elif name.endswith("experts.down_proj"):
            stem = name.removesuffix(".down_proj")
            single |= {f"{stem}.{number}.down_proj.weight": each for number, each in enumerate(array)}
        else:
            single[name] = array
    return single


def _bfloat(value: float) -> np.float32:
    """A number of few enough bits to be stored as bfloat16 too; rounded up, so that the largest weight still fits."""
    bits = np.float32(value).view(np.uint32)
    return np.uint32((int(bits) + 0xFFFF) & 0xFFFF0000).view(np.float32)


def _values() -> Tensor:
    """The value of each byte in e4m3 without infinities; NaN for the two that are none."""
    byte = np.arange(256)
    exponent, fraction = (byte >> 3) & 15, byte & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    size[(byte & 127) == 127] = np.nan
    return np.asarray(np.where(byte < 128, size, -size), dtype=np.float32)


VALUES = _values()
