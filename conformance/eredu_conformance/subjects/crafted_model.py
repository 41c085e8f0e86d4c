"""Crafted checkpoints as models of the reference: the stated law, behind caches of every kind that the reference has.

Each kind of law is remembered as an engine would: sliding windows by their rows, counts by a running state that
cannot be trimmed, a far lag by pools of rows, the others by every row. All of them hold what the law needs, so a
rollback that is wrong for one kind of cache is a wrong row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted import CraftedCheckpoint, LagCheckpoint, MemoryCheckpoint
from eredu_reference.caches import Cache, CacheRow, FullCache, Hidden, PooledCache, RecurrentCache, WindowCache
from eredu_reference.caches.recurrent import RecurrentState
from eredu_reference.errors import CacheError
from eredu_reference.rows import Row

BASE = 1 << 7
"""Larger than any vocabulary of a crafted checkpoint: an id and a marker fit into one digit."""
GROUP = 2
"""Rows of one pool."""


@dataclass(frozen=True)
class Jitter:
    """Rounding made visible: noise on every logit, a function of the history.

    Attributes:
        seed: Which noise.
        amount: Its largest absolute value.
    """

    seed: int
    amount: float

    def row(self, history: Sequence[int], vocabulary: int) -> Row:
        """Noise behind a history, shape (vocabulary,)."""
        generator = np.random.default_rng([self.seed, *history])
        return np.asarray(generator.uniform(-self.amount, self.amount, vocabulary))


class CountedCache(FullCache):
    """Every row, and how many were ever taken.

    Attributes:
        taken: Rows appended so far, the ones that were rolled back included.
    """

    taken = 0

    def append(self, row: CacheRow) -> None:
        """Add a row, and count it."""
        self.taken += 1
        super().append(row)


class RunningCache(RecurrentCache):
    """A recurrent state whose sum is never reduced: its digits are the history, and its convolution the last ids."""

    def append(self, row: CacheRow) -> None:
        """Fold one input into the state, and keep the state before it."""
        recent = (*self.state.recent, row.token)[-self.width :]
        self.snapshots.append(RecurrentState(BASE * self.state.total + row.token + 1, recent))
        self.length += 1

    def tokens(self) -> list[int]:
        """The history, its end as the convolution has it."""
        history = _digits(self.state.total)
        recent = self.state.recent
        return [*history[: max(0, len(history) - len(recent))], *recent]


class PairsCache(PooledCache):
    """Pools that can be read: one number for each full group, whose digits are its ids."""

    def append(self, row: CacheRow) -> None:
        """Add a row to the open group, and pool the group when it is full."""
        super().append(row)
        if not self.open:
            self.pools[-1] = sum((item.token + 1) * BASE**place for place, item in enumerate(self.raw[-self.group :]))

    def tokens(self) -> list[int]:
        """The history: the pools, then the open rows."""
        return [*(token for pool in self.pools for token in _digits(pool)[::-1]), *(row.token for row in self.open)]


def _digits(number: int) -> list[int]:
    """Ids in a number, the most significant first."""
    found = []
    while number:
        number, digit = divmod(number, BASE)
        found.append(digit - 1)
    return found[::-1]


@dataclass(frozen=True)
class CraftedModel:
    """A crafted checkpoint as a model of the reference.

    Attributes:
        checkpoint: Its law.
        jitter: Noise on its logits, or None.
        fingerprint: Name of the tokenizer.
    """

    checkpoint: CraftedCheckpoint
    jitter: Jitter | None = None
    fingerprint: str = "crafted"

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return self.checkpoint.vocabulary

    @property
    def context(self) -> int:
        """Inputs that fit."""
        return self.checkpoint.context_limit

    def new_cache(self) -> Cache:
        """An empty cache of the kind that the law is remembered by."""
        match self.checkpoint:
            case LagCheckpoint(sliding=int(window)) | MemoryCheckpoint(sliding=int(window)):
                return WindowCache(window)
            case MemoryCheckpoint():
                return RunningCache(modulus=0)
            case LagCheckpoint(lag=lag) if lag > 1:
                return PairsCache(GROUP)
        return CountedCache()

    def logits(self, cache: Cache) -> Row:
        """The stated logits behind the cached inputs. Before the law is stated for a history, any row will do."""
        history = _history(cache, self.checkpoint.window)
        missing = self.checkpoint.history_min - len(history)
        if missing > 0:
            history += [(history[-1] + 1) % self.vocabulary] * missing
        noise = 0.0 if self.jitter is None else self.jitter.row(history, self.vocabulary)
        return noise + self.checkpoint._logits(history)  # noqa: SLF001 - prefixes of a prompt may be too short for the law

    def hidden(self, cache: Cache) -> Hidden:  # noqa: ARG002
        """No hidden state."""
        return ()


def _history(cache: Cache, window: int | None) -> list[int]:
    """The ids that a cache holds, those outside of a window left out. Raises `CacheError` where one is misplaced."""
    if isinstance(cache, RunningCache | PairsCache):
        return cache.tokens()
    assert isinstance(cache, FullCache | WindowCache), f"a {type(cache).__name__} is none of a crafted model's"
    if window is not None and len(cache.rows) > window:
        raise CacheError(f"a window of {window} holds {len(cache.rows)} rows, and attention reads them all")
    first = len(cache) - len(cache.rows)
    if any(row.position != first + index for index, row in enumerate(cache.rows)):
        raise CacheError(f"inputs stand at positions {[row.position for row in cache.rows]}, the first due at {first}")
    return [row.token for row in cache.rows]
