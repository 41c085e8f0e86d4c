"""Heads along a given text: their outputs at every depth and every row at once, as drafting from that row would give.

Row t of depth d (from 0) stands for a block drafted behind token t + 1 whose first d proposals were the text's own
tokens; it predicts token t + 2 + d. A stage reads its true rows in one causal pass. An iterated step reads, beside the
true rows up to its start, the guesses of its own block alone, so rows of one depth do not see each other.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from eredu.families.prediction_heads import PredictionHeads
from eredu.mlx.caches.composite import RollbackList
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.whole_window import WholeWindowCache


class ForkedCache:
    """A cache as the iterated steps of many blocks see it: row r of each step goes on behind true row `first` + r.

    Args:
        true: The last stage's cache, filled along the text.
        first: The true row that the first block goes on behind.
    """

    def __init__(self, true: RollbackCache, first: int = 0) -> None:
        self._first = first
        self._window = true.window if isinstance(true, WholeWindowCache) else None
        self._keys = [true.keys[..., : true.offset, :]]
        self._values = [true.values[..., : true.offset, :]]
        self.keys, self.values = self._keys[0], self._values[0]

    @property
    def offset(self) -> int:
        """Position of row 0 of the next step."""
        return self._first + len(self._keys)

    def make_mask(self, rows: int, *, return_array: bool = True, window_size: int | None = None) -> mx.array:  # noqa: ARG002
        """Row r sees true rows up to its own, and row r of each earlier step and of this; (rows, columns), bool."""
        start = mx.arange(rows)[:, None]
        true = mx.arange(self._keys[0].shape[2])[None] <= start + self._first
        own = [mx.arange(keys.shape[2])[None] == start for keys in self._keys[1:]]
        if self._window is not None:
            true &= mx.arange(true.shape[1])[None] > start + self.offset - self._window
            own = [seen & (len(own) - step < self._window) for step, seen in enumerate(own)]
        return mx.concatenate([true, *own, mx.arange(rows)[None] == start], axis=-1)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Take in one step's rows; return all that the mask speaks of."""
        self._keys.append(keys)
        self._values.append(values)
        self.keys, self.values = mx.concatenate(self._keys, axis=2), mx.concatenate(self._values, axis=2)
        return self.keys, self.values


def outputs_along(
    heads: PredictionHeads, hidden: mx.array, tokens: mx.array, depth: int, *, first: int = 0
) -> list[mx.array]:
    """Outputs of the heads along a text.

    Args:
        heads: The heads; `depth` may pass their cap if they iterate.
        hidden: The target's hidden states that they read, shape (tokens, hidden size).
        tokens: The text, shape (tokens,), uint32.
        depth: Proposals a block, at least 1.
        first: Row t of the first block that is wanted: iterated steps leave out those before it.

    Returns:
        For each depth an array of shape (tokens - 1 - depth - first, hidden size), whose row r predicts token
        first + r + 2 + depth.
    """
    stages, caches = heads.traits.stages, heads.new_caches()
    made: list[mx.array] = []
    source, start, forked = hidden, 0, None
    for index in range(depth):
        stage = heads.traits.stage_of(index)
        if index == stages:
            forked, source, start = _forked(caches[-1], first), source[first:], first
        rows = tokens.shape[0] - 1 - index - start
        following = tokens[start + index + 1 : start + index + 1 + rows]
        source = heads.step(stage, source[:rows], following, caches[stage] if forked is None else forked)
        made.append(source[first - start :])
    return made


def _forked(true: Any, first: int) -> Any:
    """A stage's cache, or its several caches, as the iterated steps of many blocks see them."""
    return (
        RollbackList(*(_forked(each, first) for each in true.caches))
        if isinstance(true, RollbackList)
        else ForkedCache(true, first)
    )
