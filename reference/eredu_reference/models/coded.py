"""The base of models that read one number out of their cache and look their row up under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eredu_reference.caches import Hidden
from eredu_reference.models.table import Probabilities
from eredu_reference.rows import Row, logits_of


@dataclass(frozen=True)
class CodedModel:
    """A model with `len(rows)` codes. Subclasses say which cache they keep and which code it holds.

    Attributes:
        rows: Probabilities by code.
        context: Inputs that the model takes.
        fingerprint: Name of the tokenizer.
    """

    rows: tuple[Probabilities, ...]
    context: int = 4096
    fingerprint: str = "toy"

    @property
    def vocabulary(self) -> int:
        """Length of any row."""
        return len(self.rows[0])

    def code(self, cache: Any) -> int:
        """The number that the cache's content holds, 0 or more; it counts modulo `len(rows)`."""
        raise NotImplementedError(f"{type(self).__name__} must say which code its cache holds")

    def logits(self, cache: Any) -> Row:
        """Logarithms of the code's row."""
        return logits_of(np.array(self.rows[self.code(cache) % len(self.rows)], dtype=np.float64))

    def hidden(self, cache: Any) -> Hidden:  # noqa: ARG002
        """No hidden state."""
        return ()


def echo_rows(codes: int, vocabulary: int) -> tuple[Probabilities, ...]:
    """Rows that emit the code itself, modulo the vocabulary, with probability 1."""
    return tuple(tuple(float(token == code % vocabulary) for token in range(vocabulary)) for code in range(codes))
