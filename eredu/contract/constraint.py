"""The grammar of a request, as an immutable value: a branch of the future is just another value."""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """Which tokens may come next. Implementations are immutable: `advance` returns a new state."""

    @property
    def complete(self) -> bool:
        """Whether the tokens so far are a whole sentence, which ends the output."""

    def mask(self) -> NDArray[np.bool_]:
        """Allowed ids, shape (vocabulary,), at least one of them true unless complete."""

    def advance(self, token: int) -> Self:
        """State after `token`. Raises `ConstraintError` if the mask forbids it."""
