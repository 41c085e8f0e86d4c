"""All layers' caches of one sequence: fed together, rolled back together, whatever their kinds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx

from eredu.contract.errors import CapabilityError
from eredu.mlx.adapter import AppendCache, CacheList, LanguageModel, make_caches
from eredu.mlx.caches.composite import RollbackList
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.recurrent import TARGET_FEEDS, Journal, JournalledFeed, Recurrence
from eredu.mlx.taps import Recording, recording


class SequenceCache:
    """All layers' caches of one sequence, moved together.

    Args:
        model: Asks for the kinds of cache it needs.
        bucket: See `RollbackCache`.
        recurrences: The recurrence of each recurrent layer, by its place among the caches; their modules are tapped.
        journal_feeds: How many of the latest feeds recurrent layers can take back.
        attention_cache: The cache of a full-attention layer.
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
        self.layers: list[Any] = [_exact(layer, attention_cache, bucket) for layer in make_caches(model)]
        self.bucket = bucket
        self._recurrences = recurrences or {}
        self._journal = Journal(self._recurrences, journal_feeds)
        self._length = 0
        self.kinds_without_rollback = frozenset(
            type(layer).__name__
            for index, layer in enumerate(self.layers)
            if index not in self._recurrences and not _rolls_back(layer)
        )
        """Kinds of cache in use that cannot be rolled back exactly; empty if all can."""

    @property
    def length(self) -> int:
        """Tokens fed and not rolled back."""
        return self._length

    def feed(self, model: LanguageModel, tokens: mx.array) -> mx.array:
        """Run the model on tokens of shape (rows,); return logits of shape (rows, vocabulary), lazily."""
        return self.feed_recorded(model, tokens)[0]

    def feed_recorded(self, model: LanguageModel, tokens: mx.array) -> tuple[mx.array, Recording]:
        """As `feed`, with what the tapped modules saw. The rows may be rolled back one by one."""
        before = self._journal.states(self.layers)
        with recording() as record:
            logits = model(tokens[None], cache=self.layers)[0]
        self._journal.add(JournalledFeed(self._length, tokens.shape[0], before, record))
        self._length += tokens.shape[0]
        return logits, record

    def prefill(self, model: LanguageModel, tokens: Sequence[int]) -> Recording:
        """Feed tokens whose logits nobody reads, lazily; return what the tapped modules saw.

        With a bucket the rows are padded to a power of two, so that prompts of all lengths share few shapes; the
        padding is rolled back at once and its rows are overwritten by what comes next. Recurrent layers would read
        the padding, so models that have them are fed as they come. The rows stay: they are not journalled.
        """
        length = self._length + len(tokens)
        append_only = all(_rolls_back(layer) for layer in self.layers)
        padding = _next_power(len(tokens)) - len(tokens) if self.bucket is not None and append_only else 0
        _, record = self.feed_recorded(model, mx.array([*tokens, *[0] * padding], dtype=mx.uint32))
        if padding:
            # rule: scheduling.prefill-in-chunks
            self.rollback(length)
        self._journal.forget()
        return record

    # rule: rollback.exact-length, rollback.exact-state
    def rollback(self, length: int) -> None:
        """Keep the first `length` tokens. Raises `CapabilityError` where a layer cannot do so exactly."""
        if length == self._length:
            return
        if not 0 <= length < self._length:
            raise CapabilityError(f"a cache of {self._length} tokens cannot be rolled back to {length}")
        if self.kinds_without_rollback:
            raise CapabilityError(f"caches of kind {sorted(self.kinds_without_rollback)} cannot be rolled back exactly")
        self._journal.rollback(self.layers, length)
        for layer in self.layers:
            if _rolls_back(layer):
                layer.rollback(length)
        self._length = length

    def clone(self) -> SequenceCache:
        """The same tokens once more, lazily: what either is fed or loses from here on, the other does not see.

        Whichever of the two is written first copies its buffers, so this is not for decoding.
        """
        twin = copy.copy(self)
        twin.layers = copy.deepcopy(self.layers)
        # Its list of feeds is replaced and never changed.
        twin._journal = copy.copy(self._journal)  # noqa: SLF001 (of its own class)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> SequenceCache:
        """As `clone`: the model's modules, which recurrences know, are not copied."""
        return self.clone()

    def arrays(self) -> Sequence[Any]:
        """Everything that must be evaluated for the cache to be at rest."""
        return [layer.state for layer in self.layers if self._length > 0]


def _exact(layer: Any, attention_cache: type[RollbackCache], bucket: int | None) -> Any:
    """The layer's cache in the form that rolls back exactly, where there is one."""
    if type(layer) is AppendCache:
        return attention_cache(bucket)
    if type(layer) is CacheList and all(type(cache) is AppendCache for cache in layer.caches):
        return RollbackList(*[RollbackCache() for _ in layer.caches])
    return layer


def _rolls_back(layer: Any) -> bool:
    return isinstance(layer, (RollbackCache, RollbackList))


def _next_power(count: int) -> int:
    return 1 << (count - 1).bit_length()
