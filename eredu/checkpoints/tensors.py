"""One stored tensor, whatever the file format."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor as its file describes it.

    Attributes:
        name: Its name, as the converter wrote it.
        shape: Dimensions in row-major order: (out, in) for a linear layer.
        dtype: Type in the format's own words (`BF16`, `U32`; `Q4_1` for GGML).
        size_bytes: Bytes it takes.
        file: Name of the file that holds it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int
    file: str

    @property
    def element_count(self) -> int:
        """Number of stored elements."""
        return math.prod(self.shape)


def bytes_by_dtype(tensors: Iterable[StoredTensor]) -> dict[str, int]:
    """Bytes stored in each type, most first."""
    total: Counter[str] = Counter()
    for tensor in tensors:
        total[tensor.dtype] += tensor.size_bytes
    return dict(total.most_common())
