"""Means over rows that come in clusters, with a standard error that says so.

Rows of one chat resemble each other, so the chats, not the rows, are the sample. The mean is a ratio of sums, and its
standard error is the linearised one over clusters (Cochran, Sampling Techniques, chapter 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error.

    Attributes:
        mean: Sum over all rows by their number.
        error: Standard error over clusters; NaN with fewer than two.
        rows: Rows.
        clusters: Clusters with at least one row.
    """

    mean: float
    error: float
    rows: int
    clusters: int

    @classmethod
    def of(cls, clusters: Sequence[NDArray[np.float64]]) -> Estimate:
        """Estimate from the rows of each cluster; clusters without rows do not count. At least one row is needed."""
        filled = [rows for rows in clusters if rows.size]
        sizes = np.array([rows.size for rows in filled], dtype=np.float64)
        sums = np.array([rows.sum() for rows in filled], dtype=np.float64)
        mean, count = float(sums.sum() / sizes.sum()), len(filled)
        spread = float(np.square(sums - mean * sizes).sum())
        error = math.sqrt(spread * count / (count - 1)) / float(sizes.sum()) if count > 1 else math.nan
        return cls(mean, error, int(sizes.sum()), count)

    def distance(self, expected: float) -> float:
        """How far an expected mean lies from this one, in standard errors."""
        return abs(self.mean - expected) / self.error if self.error > 0 else math.inf
