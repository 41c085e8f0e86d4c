"""Loaded models, as the executors use them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import mlx.core as mx
import numpy as np

from eredu.contract.options import MAX_PROPOSALS
from eredu.mlx.adapter import LanguageModel
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.recurrent import Recurrence
from eredu.mlx.caches.sequence import SequenceCache

DRAFTER_FEEDS = 2 * (MAX_PROPOSALS + 1)
"""Feeds that an assistant may have to take back: one a proposal, of a block and of the branch behind it."""


@dataclass(frozen=True)
class TargetModel:
    """A target in memory.

    Attributes:
        model: The decoder.
        vocabulary_size: Rows of its logits.
        context: Tokens it can take as inputs.
        bucket: Padding of attention lengths for its caches; None off CUDA.
        padding_ids: Rows that stand for no token: they are never sampled.
        recurrences: See `SequenceCache`.
        attention_cache: See `SequenceCache`.
    """

    model: LanguageModel
    vocabulary_size: int
    context: int
    bucket: int | None = None
    padding_ids: tuple[int, ...] = ()
    recurrences: Mapping[int, Recurrence] = field(default_factory=dict)
    attention_cache: type[RollbackCache] = RollbackCache

    @cached_property
    def _is_token(self) -> mx.array:
        return token_mask(self.vocabulary_size, self.padding_ids)

    # rule: capability.same-vocabulary
    def fit(self, logits: mx.array) -> mx.array:
        """Logits (rows, vocabulary) with the padding ids excluded."""
        return mx.where(self._is_token, logits, -math.inf) if self.padding_ids else logits

    def new_cache(self) -> SequenceCache:
        """Empty caches for one sequence."""
        return SequenceCache(self.model, self.bucket, self.recurrences, attention_cache=self.attention_cache)


@dataclass(frozen=True)
class AssistantModel:
    """An assistant in memory, fitted to the rows of a target.

    Attributes:
        model: The decoder.
        context: Tokens it can take as inputs.
        rows: Rows of the target's logits.
        proposable: Ids below this one may be proposed; the rest is padding, or missing in one of the models.
        bucket: As in `TargetModel`.
        padding_ids: Ids below `proposable` that stand for no token, and are not proposed either.
        recurrences: See `SequenceCache`.
        attention_cache: See `SequenceCache`.
    """

    model: LanguageModel
    context: int
    rows: int
    proposable: int
    bucket: int | None = None
    padding_ids: tuple[int, ...] = ()
    recurrences: Mapping[int, Recurrence] = field(default_factory=dict)
    attention_cache: type[RollbackCache] = RollbackCache

    @cached_property
    def _is_token(self) -> mx.array:
        return token_mask(self.proposable, self.padding_ids)

    def new_cache(self) -> SequenceCache:
        """Empty caches for one sequence."""
        return SequenceCache(
            self.model, self.bucket, self.recurrences, attention_cache=self.attention_cache, journal_feeds=DRAFTER_FEEDS
        )

    # rule: capability.same-vocabulary
    def fit(self, logits: mx.array) -> mx.array:
        """Logits (rows, its vocabulary) as (rows, the target's vocabulary), padding ids excluded."""
        kept = logits[:, : self.proposable]
        if self.padding_ids:
            kept = mx.where(self._is_token, kept, -math.inf)
        missing = self.rows - kept.shape[-1]
        return kept if missing == 0 else mx.pad(kept, [(0, 0), (0, missing)], constant_values=-math.inf)


def token_mask(rows: int, padding_ids: tuple[int, ...]) -> mx.array:
    """Which of the rows stand for a token, shape (rows,), bool."""
    mask = np.ones(rows, dtype=np.bool_)
    mask[list(padding_ids)] = False
    return mx.array(mask)
