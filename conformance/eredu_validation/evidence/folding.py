"""Folding: a row of 150,000 ids as a thousand cells, the likely ids one by one and all others together.

Which ids stay is decided by the rows, before the token is drawn, so the folded token has exactly the folded law, and
every bet on it is a bet on the token. What is lost is power against deviations among ids that neither target nor draft
finds likely. Ids of probability 0 are kept apart from the others, because one of them refutes an exact null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from eredu_validation.evidence.emission import Booleans, Floats, Integers

FOLDED_CELLS = 1024
"""Cells of a folded row; smaller vocabularies are not folded."""
OTHERS, IMPOSSIBLE = -1, -2
"""What stands for an id in the cells of all other ids of positive probability, and of probability 0."""


@dataclass(frozen=True)
class Folding:
    """How one row is folded.

    Attributes:
        kept: Ids that stay, ascending.
        others: Ids that do not, and have positive probability, shape (V,).
        impossible: Ids that do not, and have probability 0, shape (V,).
    """

    kept: Integers
    others: Booleans
    impossible: Booleans

    @classmethod
    def of(cls, target: Floats, draft: Floats, cells: int) -> Self:
        """Keep the `cells` - 2 ids that target or draft, both of shape (V,), find likeliest."""
        beyond = len(target) - (cells - 2)
        kept = np.sort(np.argpartition(np.maximum(target, draft), beyond)[beyond:])
        others = target > 0
        impossible = ~others
        others[kept] = impossible[kept] = False
        return cls(kept, others, impossible)

    @property
    def ids(self) -> Integers:
        """The id of each cell, or what stands for one."""
        return np.concatenate([self.kept, [OTHERS, IMPOSSIBLE]])

    def fold(self, row: Floats) -> Floats:
        """A row of shape (V,), folded."""
        return np.concatenate([row[self.kept], [row[self.others].sum(), row[self.impossible].sum()]])

    def cell(self, token: int) -> int:
        """The cell of an id."""
        place = int(np.searchsorted(self.kept, token))
        if place < len(self.kept) and self.kept[place] == token:
            return place
        return len(self.kept) + int(self.impossible[token])
