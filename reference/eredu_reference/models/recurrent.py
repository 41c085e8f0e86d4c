"""A recurrent model: its row is a function of a running sum and a short convolution, so nothing can be trimmed away."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import RecurrentCache
from eredu_reference.models.coded import CodedModel


@dataclass(frozen=True)
class RunningSumModel(CodedModel):
    """The row is that of the running sum plus what the convolution holds.

    Attributes:
        modulus: Prime that bounds the running sum.
        width: Inputs that the convolution keeps.
    """

    modulus: int = 97
    width: int = 2

    def new_cache(self) -> RecurrentCache:
        """A recurrent cache."""
        return RecurrentCache(self.modulus, self.width)

    def code(self, cache: RecurrentCache) -> int:
        """Sum and convolution in one number."""
        total, *recent = cache.content()
        return total + sum((place + 2) * (token + 1) for place, token in enumerate(recent))
