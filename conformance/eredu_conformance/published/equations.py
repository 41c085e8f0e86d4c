"""What the published models have in common: norms, softmax, rotary positions, routing of experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Root mean square norm over the last axis."""
    return np.asarray(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight)


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return np.asarray(1 / (1 + np.exp(-x)))


def causal(rows: int) -> NDArray[np.bool_]:
    """Which keys each row may see, shape (rows, rows)."""
    return np.tril(np.ones((rows, rows), dtype=np.bool_))


def highest(scores: Array, count: int) -> NDArray[np.intp]:
    """Indices of the highest scores on the last axis, the first of equals first."""
    return np.argsort(-scores, axis=-1, kind="stable")[..., :count]


@dataclass(frozen=True)
class Published:
    """A checkpoint's tensors in float64, and its config."""

    config: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]

    def get(self, name: str) -> Array:
        """A tensor."""
        return np.asarray(self.tensors[name], dtype=np.float64)

    def linear(self, x: Array, name: str) -> Array:
        """A projection without bias."""
        return np.asarray(x @ self.get(f"{name}.weight").T)

    def norm(self, x: Array, name: str, eps: float) -> Array:
        """A norm."""
        return rms_norm(x, self.get(f"{name}.weight"), eps)

    def route(self, x: Array, gate: str) -> tuple[NDArray[np.intp], Array]:
        """Chosen experts and their weights, each of shape (rows, chosen)."""
        config = self.config
        scores = sigmoid(self.linear(x, gate))
        rows, experts = scores.shape
        groups = config["n_group"]
        order = (scores + self.get(f"{gate}.e_score_correction_bias")).reshape(rows, groups, experts // groups)
        if groups > 1:
            best = np.sort(order, axis=-1)[..., -2:].sum(axis=-1)
            kept = np.zeros((rows, groups), dtype=np.bool_)
            np.put_along_axis(kept, highest(best, config["topk_group"]), values=True, axis=-1)
            order = np.where(kept[..., None], order, -np.inf)
        chosen = highest(order.reshape(rows, experts), config["num_experts_per_tok"])
        weights = np.take_along_axis(scores, chosen, axis=-1)
        if config["norm_topk_prob"]:
            weights = weights / weights.sum(axis=-1, keepdims=True)
        return chosen, weights * config["routed_scaling_factor"]


def rotate_pairs(x: Array, angles: Array) -> Array:
    """Rotate neighbours (0, 1), (2, 3) … of the last axis."""
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], np.cos(angles), np.sin(angles)
    return np.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1).reshape(x.shape)


def rotate_halves(x: Array, angles: Array) -> Array:
    """Rotate (0, n/2), (1, n/2 + 1) … of the last axis."""
    first, second = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
