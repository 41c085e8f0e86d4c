"""All layers' caches of a batch of sequences: fed together, rolled back together, whatever their kinds.

Layers keep one length for all members, and recurrent layers one member alone: what a cache cannot hold it refuses, and
who has members of different lengths feeds them in turn.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx

from eredu.contract.errors import CapabilityError
from eredu.mlx.adapter import AppendCache, CacheList, LanguageModel, make_caches, window_of_cache
from eredu.mlx.caches.composite import RollbackList
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.recurrent import TARGET_FEEDS, Journal, JournalledFeed, Recurrence
from eredu.mlx.caches.window import WindowCache
from eredu.mlx.taps import Recording, recording


class BatchCache:
    """Caches of `members` sequences, moved together.

    Args:
        model: Asks for the kinds of cache it needs.
        bucket: See `RollbackCache`.
        recurrences: The recurrence of each recurrent layer, by its place among the caches; their modules are tapped.
        members: Sequences.
        journal_feeds: How many of the latest feeds recurrent layers can take back.
        attention_cache: The cache of a full-attention layer.

    Attributes:
        layers: A cache for each layer that has one.
        kinds_without_rollback: Kinds of cache in use that cannot be rolled back exactly; empty if all can.

    Raises `CapabilityError` for several members of a model with recurrent layers.
    """

    def __init__(
        self,
        model: LanguageModel,
        bucket: int | None = None,
        recurrences: Mapping[int, Recurrence] | None = None,
        *,
        members: int = 1,
        journal_feeds: int = TARGET_FEEDS,
        attention_cache: type[RollbackCache] = RollbackCache,
    ) -> None:
        self.layers: list[Any] = [_exact(layer, attention_cache, bucket) for layer in make_caches(model)]
        self.recurrences = recurrences or {}
        if self.recurrences and members > 1:
            raise CapabilityError(f"recurrent layers hold one sequence a cache, not {members}; give each its own")
        self.kinds_without_rollback = frozenset(
            type(layer).__name__
            for index, layer in enumerate(self.layers)
            if index not in self.recurrences and not _rolls_back(layer)
        )
        append_only = all(_rolls_back(layer) for layer in self.layers)
        self._pads = bucket is not None and append_only
        self._members = members
        self._journal = Journal(self.recurrences, journal_feeds)
        self._length = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens fed and not rolled back, of each member."""
        return (self._length,) * self._members

    def feed(self, model: LanguageModel, tokens: mx.array) -> tuple[mx.array, Recording]:
        """Run the model on tokens of shape (members, rows).

        Returns logits of shape (members, rows, vocabulary), lazily, and what the tapped modules saw. The rows may be
        rolled back one by one.
        """
        self._check(len(tokens), "rows of tokens")
        before = self._journal.states(self.layers)
        with recording() as record:
            logits = model(tokens, cache=self.layers)
        self._journal.add(JournalledFeed(self._length, tokens.shape[1], before, record))
        self._length += tokens.shape[1]
        return logits, record

    def prefill(self, model: LanguageModel, tokens: Sequence[Sequence[int]]) -> Recording:
        """Feed as many tokens of each member, whose logits nobody reads, lazily; return what the tapped modules saw.

        With a bucket the rows are padded to a power of two, so that prompts of all lengths share few shapes; the
        padding is rolled back at once and its rows are overwritten by what comes next. Recurrent layers would read
        the padding, so models that have them are fed as they come. The rows stay: they are not journalled.
        """
        rows = len(tokens[0])
        length, padding = self._length + rows, _next_power(rows) - rows if self._pads else 0
        _, record = self.feed(model, mx.array([[*row, *[0] * padding] for row in tokens], dtype=mx.uint32))
        if padding:
            # rule: scheduling.prefill-in-chunks
            self.rollback([length] * self._members)
        self._journal.forget()
        return record

    # rule: rollback.exact-length, rollback.exact-state
    def rollback(self, lengths: Sequence[int]) -> None:
        """Keep the first tokens of each member, as many as its length says.

        Raises `CapabilityError` where a layer cannot do so exactly, and for members of different lengths.
        """
        self._check(len(lengths), "lengths")
        length = lengths[0]
        if any(other != length for other in lengths):
            raise CapabilityError(f"these caches keep all members at one length; {list(lengths)} needs a cache each")
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

    def clone(self) -> BatchCache:
        """The same tokens once more, lazily: what either is fed or loses from here on, the other does not see.

        Whichever of the two is written first copies its buffers, so this is not for decoding.
        """
        twin = copy.copy(self)
        twin.layers = copy.deepcopy(self.layers)
        # Its list of feeds is replaced and never changed.
        twin._journal = copy.copy(self._journal)  # noqa: SLF001 (of its own class)
        return twin

    def arrays(self) -> Sequence[Any]:
        """Everything that must be evaluated for the caches to be at rest."""
        return [layer.state for layer in self.layers if self._length > 0]

    def _check(self, count: int, what: str) -> None:
        if count != self._members:
            raise CapabilityError(f"a cache of {self._members} members was given {count} {what}; expected one a member")


def _exact(layer: Any, attention_cache: type[RollbackCache], bucket: int | None) -> Any:
    """The layer's cache in the form that rolls back exactly, where there is one."""
    if type(layer) is AppendCache:
        return attention_cache(bucket)
    if type(layer) is CacheList and all(type(cache) is AppendCache for cache in layer.caches):
        return RollbackList(*[RollbackCache() for _ in layer.caches])
    window = window_of_cache(layer)
    return layer if window is None else WindowCache(window, bucket)


def _rolls_back(layer: Any) -> bool:
    return isinstance(layer, (RollbackCache, RollbackList, WindowCache))


def _next_power(count: int) -> int:
    return 1 << (count - 1).bit_length()
