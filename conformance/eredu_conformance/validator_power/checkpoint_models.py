"""A real checkpoint as models of the reference engine: its target and its prediction head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eredu_conformance.validator_power.checkpoint_rows import CheckpointRows, Tokens
from eredu_reference.caches import CacheRow, FullCache, Hidden
from eredu_reference.rows import Row


@dataclass(frozen=True)
class CheckpointTarget:
    """The target as a model of the reference engine. Its hidden state is told by what it is: no guess.

    Attributes:
        rows: The checkpoint.
        zero: The checkpoint's id that the engine calls 0; the checkpoint's own 0 gets its number.
        fingerprint: Name of the tokenizer.
    """

    rows: CheckpointRows
    zero: int = 0
    fingerprint: str = "checkpoint"

    @property
    def vocabulary(self) -> int:
        """Ids."""
        return self.rows.target.vocabulary_size

    @property
    def context(self) -> int:
        """Inputs that the target takes."""
        return self.rows.target.context

    def new_cache(self) -> FullCache:
        """Tokens only: the rows are read elsewhere."""
        return FullCache()

    def logits(self, cache: FullCache) -> Row:
        """The row behind the tokens of the cache."""
        return self._numbered(self.rows.target_row(self.renamed(_tokens(cache))))

    def hidden(self, cache: FullCache) -> Hidden:  # noqa: ARG002
        """Depth 0."""
        return (0.0,)

    def renamed(self, tokens: Tokens) -> Tokens:
        """Tokens of the engine as tokens of the checkpoint, and the other way round."""
        return tuple(_other(token, self.zero) for token in tokens)

    def _numbered(self, row: Row) -> Row:
        if self.zero:
            row[[0, self.zero]] = row[[self.zero, 0]]
        return row


def _tokens(cache: FullCache) -> Tokens:
    return tuple(row.token for row in cache.rows)


def _other(token: int, zero: int) -> int:
    return {0: zero, zero: 0}.get(token, token)


class LazyCache(FullCache):
    """Tokens that a head was fed, and whether a row was asked for since.

    The engine feeds its drafter token by token and reads the last row only, when it has fed all; what feeding itself
    returns is read by nobody, and need not be computed.
    """

    asked = True

    def append(self, row: CacheRow) -> None:
        """Add a row behind the others."""
        super().append(row)
        self.asked = False


@dataclass(frozen=True)
class CheckpointHead(CheckpointTarget):
    """The head as a drafter that reads hidden states: each input brings the depth of the hidden state before it.

    Attributes:
        temperature: What its logits are divided by: a drafter may be as sure of itself as it likes.
    """

    temperature: float = 1.0

    def new_cache(self) -> LazyCache:
        """Tokens, and whether a row was asked for."""
        return LazyCache()

    def logits(self, cache: FullCache) -> Row:
        """The row behind the tokens of the cache; NaN, which no engine takes for a row, for what feeding returns."""
        assert isinstance(cache, LazyCache), "a head reads a cache of its own kind"
        if not cache.asked:
            cache.asked = True
            return np.full(self.vocabulary, np.nan)
        row = self.rows.draft_row(self.renamed(_tokens(cache)), self._depth(cache))
        return self._numbered(row) / self.temperature

    def hidden(self, cache: FullCache) -> Hidden:
        """One deeper than the hidden state that came with the last input."""
        return (self._depth(cache) + 1.0,)

    @staticmethod
    def _depth(cache: FullCache) -> int:
        last = cache.rows[-1].hidden
        return int(last[0]) if last else 0
