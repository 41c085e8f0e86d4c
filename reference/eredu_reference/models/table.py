"""A table model: the next row is looked up under the last tokens in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from eredu_reference.caches import FullCache, Hidden
from eredu_reference.errors import RequestError
from eredu_reference.rows import Row, logits_of

Probabilities = tuple[float, ...]
"""A row as plain numbers that sum to 1; zeros are allowed."""


@dataclass(frozen=True)
class TableModel:
    """Rows by context.

    Attributes:
        rows: Probabilities by the last `order` tokens (all tokens, where there are fewer).
        order: Tokens that the table looks at.
        context: Inputs that the model takes.
        fingerprint: Name of the tokenizer.
    """

    rows: Mapping[tuple[int, ...], Probabilities]
    order: int = 1
    context: int = 4096
    fingerprint: str = "toy"

    @property
    def vocabulary(self) -> int:
        """Length of any row."""
        return len(next(iter(self.rows.values())))

    def new_cache(self) -> FullCache:
        """A full-attention cache."""
        return FullCache()

    def logits(self, cache: FullCache) -> Row:
        """Logarithms of the row under the last tokens of the cache."""
        key = tuple(row.token for row in cache.content()[-self.order :])
        if key not in self.rows:
            raise RequestError(f"the table has no row for the context {key}")
        return logits_of(np.array(self.rows[key], dtype=np.float64))

    def hidden(self, cache: FullCache) -> Hidden:  # noqa: ARG002
        """A table has no hidden state."""
        return ()

    @classmethod
    def random(
        cls, vocabulary: int, *, order: int, seed: int, zeros: float = 0.0, sharpness: float = 1.0, context: int = 4096
    ) -> TableModel:
        """A table with a random row for every context of 1 to `order` tokens."""
        contexts = [key for length in range(1, order + 1) for key in product(range(vocabulary), repeat=length)]
        rows = random_rows(len(contexts), vocabulary, seed=seed, zeros=zeros, sharpness=sharpness)
        return cls(dict(zip(contexts, rows, strict=True)), order, context)


def random_rows(
    count: int, vocabulary: int, *, seed: int, zeros: float = 0.0, sharpness: float = 1.0
) -> list[Probabilities]:
    """Random distributions.

    Args:
        count: How many.
        vocabulary: Their length.
        seed: Seed of numpy's generator.
        zeros: Chance that an id has probability 0; one id always stays.
        sharpness: 1 is a Dirichlet row with all parameters 1; larger is more peaked.
    """
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        weights = generator.exponential(size=vocabulary) ** sharpness
        weights[generator.random(vocabulary) < zeros] = 0.0
        if not weights.any():
            weights[int(generator.integers(vocabulary))] = 1.0
        rows.append(tuple(float(x) for x in weights / weights.sum()))
    return rows
