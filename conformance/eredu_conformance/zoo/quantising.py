"""MLX's affine quantisation in numpy: groups of the last axis as w ≈ scale · q + bias, packed into 32-bit words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu_conformance.zoo.drawing import Tensor

WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Affine:
    """One setting.

    Attributes:
        bits: Bits a weight: 2, 4 or 8.
        group: Weights that share a scale and a bias.
    """

    bits: int = 4
    group: int = 32

    @property
    def config(self) -> dict[str, Any]:
        """As config.json states it."""
        return {"bits": self.bits, "group_size": self.group, "mode": "affine"}

    def fits(self, weight: Tensor) -> bool:
        """Whether a weight can be quantised: a matrix, or a stack of them, with whole groups."""
        return weight.ndim >= 2 and weight.shape[-1] % self.group == 0

    def quantise(self, weight: Tensor) -> tuple[NDArray[np.uint32], Tensor, Tensor]:
        """Packed words (…, inputs · bits / 32), scales and biases (…, inputs / group)."""
        grouped = weight.reshape(*weight.shape[:-1], -1, self.group)
        low, high = grouped.min(-1, keepdims=True), grouped.max(-1, keepdims=True)
        scale = np.maximum((high - low) / np.float32(2**self.bits - 1), np.float32(1e-7))
        levels = np.clip(np.rint((grouped - low) / scale), 0, 2**self.bits - 1).astype(np.uint32)
        per_word = WORD_BITS // self.bits
        lanes = levels.reshape(*weight.shape[:-1], -1, per_word) << np.arange(0, WORD_BITS, self.bits, dtype=np.uint32)
        words = np.bitwise_or.reduce(lanes, axis=-1).astype(np.uint32)
        return words, np.asarray(scale[..., 0]), np.asarray(low[..., 0])
