"""Attention with a chosen meaning: what each head asks for, what each row answers, and where the answer lands.

Rotary embeddings turn a query at position i and a key at position j by their positions, so a constant query and a
constant key score cos(omega * (i - j) + phase): a head can ask for a *lag*, and for nothing else. The slowest pair of a
head turns by omega radians a position when `rope_theta` is `theta_for(omega, head_dim)`; all crafted heads use
only that pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted.architecture import NORM_EPSILON, Architecture, Decoder, Tensor, norm_gain

LEAK_EXPONENT = 36.0
"""A sharp head gives every row but its own a weight of at most exp(-36) = 2e-16, below float64's last bit."""


def theta_for(omega: float, head_dim: int) -> float:
    """The `rope_theta` under which the slowest pair of a head turns by `omega` radians (0 < omega < 1) a position."""
    if not 0 < omega < 1:
        raise ValueError(f"omega was {omega}; the slowest pair of a head turns by less than 1 radian a position")
    if head_dim < 4:
        raise ValueError(f"head_dim was {head_dim}; the only pair of a 2-wide head always turns by 1 radian")
    return float(omega ** (-head_dim / (head_dim - 2)))


def even_width(values: int) -> int:
    """The narrowest head (even, at least 4) that carries `values` numbers."""
    return max(4, values + values % 2)


def pair_vector(head_dim: int, angle: float) -> Tensor:
    """Unit vector in the slowest rotary pair, shape (head_dim,), at `angle` radians."""
    vector = np.zeros(head_dim)
    vector[head_dim // 2 - 1], vector[head_dim - 1] = np.cos(angle), np.sin(angle)
    return vector


@dataclass(frozen=True, eq=False, kw_only=True)
class Attention:
    """The heads of one layer over a residual whose first V slots are the one-hot current token.

    Attributes:
        queries: Query of each head, the same for every token, shape (heads, head_dim).
        keys: Key of each token, shape (V, head_dim).
        values: Value of each token, shape (V, head_dim).
        outputs: Where the heads' answers land, shape (hidden, heads * head_dim).
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    outputs: Tensor

    def install(self, decoder: Decoder, tensors: dict[str, Tensor], layer: int = 0) -> None:
        """Write the heads into the silent tensors of `layer`.

        The residual that enters is one-hot with entry 1, so a projection column is the wanted vector divided by
        the gain of the norm, and a query that is the same for all tokens needs no bias.
        """
        gain = norm_gain(decoder, 1.0)
        prefix = f"model.layers.{layer}.self_attn"
        vocabulary = slice(0, decoder.vocabulary)
        tensors[f"{prefix}.q_proj.weight"][:, vocabulary] = self.queries.reshape(-1, 1) / gain
        tensors[f"{prefix}.k_proj.weight"][:, vocabulary] = self.keys.T / gain
        tensors[f"{prefix}.v_proj.weight"][:, vocabulary] = self.values.T / gain
        tensors[f"{prefix}.o_proj.weight"][:] = self.outputs
        if decoder.architecture is Architecture.QWEN3:
            tensors[f"{prefix}.q_norm.weight"][:] = _undo_norm(self.queries)
            tensors[f"{prefix}.k_norm.weight"][:] = _undo_norm(self.keys)


def _undo_norm(vectors: Tensor) -> float:
    """The weight under which the RMS norm of a head is the identity on `vectors` (zero vectors stay zero)."""
    squares = np.sum(vectors**2, axis=1)
    squares = squares[squares > 0]
    if squares.size == 0:
        return 1.0
    if np.ptp(squares) > 1e-9 * squares[0]:
        raise ValueError("a normed head needs query (and key) vectors of one length; theirs differ")
    return float(np.sqrt(squares[0] / vectors.shape[1] + NORM_EPSILON))


def lag_query(head_dim: int, *, lag: int, omega: float, sharpness: float) -> Tensor:
    """Query that scores `sharpness * cos(omega * (d - lag))` against a unit key at lag d, shape (head_dim,)."""
    return np.asarray(sharpness * np.sqrt(head_dim) * pair_vector(head_dim, -omega * lag))
