"""Conditional tables: the probabilities that crafted laws are made of."""

from __future__ import annotations

import numpy as np

from eredu_conformance.crafted.architecture import Tensor
from eredu_conformance.crafted.checkpoint import IMPOSSIBLE

_ROW_SUM_TOLERANCE = 1e-12


def table(values: object, *, dimensions: int = 2) -> Tensor:
    """A checked, read-only table: the last axis is the next token and each of its rows sums to 1.

    Raises:
        ValueError: a wrong number of axes, a negative or NaN entry, or a row that doesn't sum to 1.
    """
    array = np.array(values, dtype=np.float64)
    if array.ndim != dimensions:
        raise ValueError(f"a table with {array.ndim} axes was given; this law needs {dimensions}")
    if not np.all(array >= 0):
        raise ValueError("a table entry was negative or NaN; entries are probabilities")
    worst = float(np.abs(array.sum(axis=-1) - 1).max())
    if worst > _ROW_SUM_TOLERANCE:
        raise ValueError(f"a row of the table misses the sum 1 by {worst:.3g}; normalise it")
    array.flags.writeable = False
    return array


def log_table(probabilities: Tensor) -> Tensor:
    """Logarithms, with `IMPOSSIBLE` for probability 0."""
    positive = probabilities > 0
    return np.where(positive, np.log(np.where(positive, probabilities, 1.0)), IMPOSSIBLE)


def random_table(seed: int, shape: tuple[int, ...], *, concentration: float = 1.0) -> Tensor:
    """Rows drawn from a symmetric Dirichlet law; a small concentration makes peaked rows."""
    generator = np.random.default_rng(seed)
    rows = generator.dirichlet(np.full(shape[-1], concentration), size=shape[:-1])
    rows = np.maximum(rows, 1e-6)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def forbid(probabilities: Tensor, forbidden: object) -> Tensor:
    """The table with the entries of the boolean mask `forbidden` (broadcast) at 0 and its rows normalised again."""
    mask = np.broadcast_to(np.asarray(forbidden, dtype=bool), probabilities.shape)
    kept = np.where(mask, 0.0, probabilities)
    if not np.all(kept.sum(axis=-1) > 0):
        raise ValueError("every token of some row was forbidden; leave at least one")
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def cycle_table(vocabulary: int, step: int = 1) -> Tensor:
    """The deterministic table in which id x is followed by id x + step, modulo the vocabulary."""
    return np.roll(np.eye(vocabulary), step, axis=1)


def mix(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """`(1 - weight) * first + weight * second`."""
    return (1 - weight) * first + weight * second


def sum_table(vocabulary: int, offset: int = 0) -> Tensor:
    """The deterministic order-2 table in which a after b is followed by a + b + offset, modulo the vocabulary.

    A wrong earlier token always means a wrong next one.
    """
    ids = np.arange(vocabulary)
    return np.asarray(np.eye(vocabulary)[(ids[:, None] + ids[None, :] + offset) % vocabulary])
