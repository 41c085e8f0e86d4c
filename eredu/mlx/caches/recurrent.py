"""Exact rollback of recurrent and convolution state, without a second forward pass.

Such a state cannot be shortened: it has forgotten what came before. So a feed that may be rolled back is journalled:
the state before it (free, for entries are replaced and never mutated) and what its recurrence was fed, row by row.
Rolling back to a row runs the recurrence alone over the rows that stay, one at a time, as decoding would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx

from eredu.contract.errors import CapabilityError
from eredu.mlx.taps import Recording

State = tuple[mx.array | None, ...]
"""Entries of one layer's recurrent cache; None before the first token."""

TARGET_FEEDS = 2
"""Feeds of a target kept: a verification, and the plain one that may already run behind it."""


class Recurrence(Protocol):
    """The recurrence of one layer, as its family defines it."""

    def advance(self, state: State, record: Recording, rows: int) -> State:
        """State after the first `rows` rows of a recorded feed that started in `state`."""


@dataclass(frozen=True, slots=True)
class JournalledFeed:
    """One feed that may be rolled back.

    Attributes:
        start: Tokens in the caches before it.
        rows: Tokens it fed.
        before: State of each recurrent layer before it, by the layer's place among the caches.
        record: What the tapped modules saw.
    """

    start: int
    rows: int
    before: Mapping[int, State]
    record: Recording

    @property
    def end(self) -> int:
        """Tokens in the caches behind it."""
        return self.start + self.rows


class Journal:
    """The latest feeds of one sequence, and how its recurrent layers get back to a row within them.

    Args:
        recurrences: The recurrence of each recurrent layer, by its place among the caches.
        feeds: How many of the latest feeds can be taken back.
    """

    def __init__(self, recurrences: Mapping[int, Recurrence], feeds: int = TARGET_FEEDS) -> None:
        self._recurrences = recurrences
        self._kept = feeds
        self._feeds: list[JournalledFeed] = []

    def states(self, layers: list[Any]) -> dict[int, State]:
        """Current state of every recurrent layer, by reference."""
        return {index: tuple(layers[index].cache) for index in self._recurrences}

    def add(self, feed: JournalledFeed) -> None:
        """Journal a feed. Without recurrent layers there is nothing to keep it for."""
        if self._recurrences:
            self._feeds = [*self._feeds, feed][-self._kept :]

    def forget(self) -> None:
        """Forget every feed: what is in the caches now stays."""
        self._feeds = []

    # rule: rollback.exact-state
    def rollback(self, layers: list[Any], length: int) -> None:
        """Take every recurrent layer back to `length` tokens. Raises `CapabilityError` beyond the journal."""
        if not self._recurrences:
            return
        feed = next((feed for feed in self._feeds if feed.start <= length < feed.end), None)
        if feed is None:
            known = [(feed.start, feed.end) for feed in self._feeds]
            raise CapabilityError(
                f"recurrent state cannot go back to {length} tokens; feeds from {known} are journalled"
            )
        rows = length - feed.start
        for index, recurrence in self._recurrences.items():
            before = feed.before[index]
            layers[index].cache = list(recurrence.advance(before, feed.record, rows) if rows else before)
        earlier = [other for other in self._feeds if other.end <= feed.start]
        kept = JournalledFeed(feed.start, rows, feed.before, feed.record)
        self._feeds = [*earlier, kept] if rows else earlier
