"""Random weights that depend on a tensor's name and shape alone, so that adding one tensor moves no other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[np.float32]
Tensors = dict[str, Tensor]
"""Tensors by name, in torch's order: a matrix is (outputs, inputs)."""


@dataclass(frozen=True)
class Drawer:
    """Draws tensors for one checkpoint.

    Attributes:
        seed: Of the whole checkpoint.
    """

    seed: int = 0

    def normal(self, name: str, *shape: int, gain: float = 1.0) -> Tensor:
        """A matrix whose outputs have about `gain` times the scale of its inputs; the last axis is the inputs'."""
        return self._draw(name, shape) * np.float32(gain * shape[-1] ** -0.5)

    def near(self, name: str, centre: float, *shape: int, spread: float = 0.1) -> Tensor:
        """Values around a centre: norms, biases."""
        return np.float32(centre) + np.float32(spread) * self._draw(name, shape)

    def between(self, name: str, low: float, high: float, *shape: int) -> Tensor:
        """Values spread evenly between two bounds."""
        return np.asarray(self._generator(name).uniform(low, high, shape), dtype=np.float32)

    def linears(self, prefix: str, shapes: Mapping[str, tuple[int, int]], *, gain: float = 1.0) -> Tensors:
        """The `.weight` of several projections by name behind `prefix`."""
        names = {f"{prefix}{name}.weight": shape for name, shape in shapes.items()}
        return {name: self.normal(name, *shape, gain=gain) for name, shape in names.items()}

    def biases(self, prefix: str, sizes: Mapping[str, int]) -> Tensors:
        """The `.bias` of several projections by name behind `prefix`."""
        names = {f"{prefix}{name}.bias": size for name, size in sizes.items()}
        return {name: self.near(name, 0.0, size) for name, size in names.items()}

    def norms(self, prefix: str, sizes: Mapping[str, int], *, centre: float = 1.0) -> Tensors:
        """The `.weight` of several norms by name behind `prefix`."""
        names = {f"{prefix}{name}.weight": size for name, size in sizes.items()}
        return {name: self.near(name, centre, size) for name, size in names.items()}

    def gated_mlp(self, prefix: str, *, hidden: int, inner: int) -> Tensors:
        """The three projections of a gated MLP."""
        shapes = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
        return self.linears(prefix, shapes, gain=1.5)

    def outer(self, embedding: str, norm: str, *, vocabulary: int, hidden: int, centre: float = 1.0) -> Tensors:
        """Embedding, final norm and output projection; the first two by their names without `.weight`."""
        return {
            f"{embedding}.weight": self.near(f"{embedding}.weight", 0.0, vocabulary, hidden, spread=0.7),
            **self.norms("", {norm: hidden}, centre=centre),
            "lm_head.weight": self.normal("lm_head.weight", vocabulary, hidden, gain=2.5),
        }

    def _draw(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return np.asarray(self._generator(name).standard_normal(shape), dtype=np.float32)

    def _generator(self, name: str) -> np.random.Generator:
        words = np.frombuffer(hashlib.sha256(f"{self.seed}:{name}".encode()).digest(), dtype="<u4")
        return np.random.Generator(np.random.Philox(key=int(words[0]) | int(words[1]) << 32))
