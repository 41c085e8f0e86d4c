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
from eredu.mlx.caches.recurrent import TARGET_FEEDS, Recurrence
from eredu.mlx.caches.sequence import SequenceCache

DRAFTER_FEEDS = 2 * (MAX_PROPOSALS + 1)
"""Feeds that an assistant may have to take back: one a proposal, of a block and of the branch behind it."""


@dataclass(frozen=True)
class FittedModel:
    """A target in memory, or an assistant whose rows are fitted to those of its target.

    Attributes:
        model: The decoder.
        vocabulary_size: Rows of the target's logits.
        context: Tokens it can take as inputs.
        bucket: Padding of attention lengths for its caches; None off CUDA.
        padding_ids: Rows that stand for no token: they are never sampled.
        recurrences: See `SequenceCache`.
        attention_cache: See `SequenceCache`.
        proposable: Ids below this one may be proposed; the rest is padding, or missing in one of the models. None for
            a target, which has all rows.
        journal_feeds: See `SequenceCache`.
    """

    model: LanguageModel
    vocabulary_size: int
    context: int
    bucket: int | None = None
    padding_ids: tuple[int, ...] = ()
    recurrences: Mapping[int, Recurrence] = field(default_factory=dict)
    attention_cache: type[RollbackCache] = RollbackCache
    proposable: int | None = None
    journal_feeds: int = TARGET_FEEDS

    @cached_property
    def _is_token(self) -> mx.array:
        """Which of its own rows stand for a token, shape (rows,), bool."""
        mask = np.ones(self.vocabulary_size if self.proposable is None else self.proposable, dtype=np.bool_)
        mask[list(self.padding_ids)] = False
        return mx.array(mask)

    # rule: capability.same-vocabulary
    def fit(self, logits: mx.array) -> mx.array:
        """Logits (rows, its vocabulary) as (rows, the target's vocabulary), padding ids excluded."""
        kept = logits if self.proposable is None else logits[:, : self.proposable]
        if self.padding_ids:
            kept = mx.where(self._is_token, kept, -math.inf)
        missing = 0 if self.proposable is None else self.vocabulary_size - self.proposable
        return kept if missing == 0 else mx.pad(kept, [(0, 0), (0, missing)], constant_values=-math.inf)

    def new_cache(self) -> SequenceCache:
        """Empty caches for one sequence."""
        return SequenceCache(
            self.model,
            self.bucket,
            self.recurrences,
            attention_cache=self.attention_cache,
            journal_feeds=self.journal_feeds,
        )
