"""Loaded models, as the executors use them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from eredu.mlx.adapter import LanguageModel
from eredu.mlx.cache import SequenceCache


@dataclass(frozen=True)
class TargetModel:
    """A target in memory.

    Attributes:
        model: The decoder.
        vocabulary_size: Rows of its logits.
        context: Tokens it can take as inputs.
        bucket: Padding of attention lengths for its caches; None off CUDA.
    """

    model: LanguageModel
    vocabulary_size: int
    context: int
    bucket: int | None = None

    def new_cache(self) -> SequenceCache:
        """Empty caches for one sequence."""
        return SequenceCache(self.model, self.bucket)


@dataclass(frozen=True)
class AssistantModel:
    """An assistant in memory, fitted to the rows of a target.

    Attributes:
        model: The decoder.
        context: Tokens it can take as inputs.
        rows: Rows of the target's logits.
        proposable: Ids below this one have a token; the rest is padding and is never proposed.
        bucket: As in `TargetModel`.
    """

    model: LanguageModel
    context: int
    rows: int
    proposable: int
    bucket: int | None = None

    def new_cache(self) -> SequenceCache:
        """Empty caches for one sequence."""
        return SequenceCache(self.model, self.bucket)

    def fit(self, logits: mx.array) -> mx.array:
        """Logits (rows, its vocabulary) as (rows, the target's vocabulary), padding ids excluded."""
        kept = logits[:, : self.proposable]
        missing = self.rows - kept.shape[-1]
        return kept if missing == 0 else mx.pad(kept, [(0, 0), (0, missing)], constant_values=-math.inf)
