"""The caches of one sequence: a batch of one member, without the axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx

from eredu.mlx.adapter import LanguageModel
from eredu.mlx.caches.batch import BatchCache
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.recurrent import TARGET_FEEDS, Recurrence
from eredu.mlx.taps import Recording


class SequenceCache:
    """All layers' caches of one sequence, moved together. Arguments and errors are those of `BatchCache`.

    Attributes:
        batch: The batch of one.
    """

    def __init__(
        self,
        model: LanguageModel,
        bucket: int | None = None,
        recurrences: Mapping[int, Recurrence] | None = None,
        *,
        journal_feeds: int = TARGET_FEEDS,
        attention_cache: type[RollbackCache] = RollbackCache,
    ) -> None:
        self.batch = BatchCache(
            model, bucket, recurrences, journal_feeds=journal_feeds, attention_cache=attention_cache
        )

    @property
    def layers(self) -> list[Any]:
        """A cache for each layer that has one."""
        return self.batch.layers

    @property
    def length(self) -> int:
        """Tokens fed and not rolled back."""
        return self.batch.lengths[0]

    @property
    def kinds_without_rollback(self) -> frozenset[str]:
        """Kinds of cache in use that cannot be rolled back exactly; empty if all can."""
        return self.batch.kinds_without_rollback

    def feed(self, model: LanguageModel, tokens: mx.array) -> mx.array:
        """Run the model on tokens of shape (rows,); return logits of shape (rows, vocabulary), lazily."""
        return self.feed_recorded(model, tokens)[0]

    def feed_recorded(self, model: LanguageModel, tokens: mx.array) -> tuple[mx.array, Recording]:
        """As `feed`, with what the tapped modules saw. The rows may be rolled back one by one."""
        logits, record = self.batch.feed(model, tokens[None])
        return logits[0], record

    def prefill(self, model: LanguageModel, tokens: Sequence[int]) -> Recording:
        """Feed tokens whose logits nobody reads, lazily; return what the tapped modules saw. See `BatchCache`."""
        return self.batch.prefill(model, [tokens])

    def rollback(self, length: int) -> None:
        """Keep the first `length` tokens. Raises `CapabilityError` where a layer cannot do so exactly."""
        self.batch.rollback([length])

    def clone(self) -> SequenceCache:
        """The same tokens once more; see `BatchCache.clone`."""
        twin = SequenceCache.__new__(SequenceCache)
        twin.batch = self.batch.clone()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> SequenceCache:
        """As `clone`: the model's modules, which recurrences know, are not copied."""
        return self.clone()

    def arrays(self) -> Sequence[Any]:
        """Everything that must be evaluated for the cache to be at rest."""
        return self.batch.arrays()
