"""Rows of a real checkpoint, its target's and its prediction head's, by the tokens read.

Models run on eredu's own caches: a block is fed in one forward pass, and what was rejected is rolled back. A row is
a function of the tokens before it (and, of a head, of its depth in the block), so rows are remembered, and a fault
planted in the engine cannot reach them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from eredu.contract.errors import CapabilityError
from eredu.families.prediction_heads import PredictionHeads
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.models import FittedModel
from eredu_reference.rows import Row

REMEMBERED = 4096
"""Rows of target and head each that are kept in memory."""
Tokens = tuple[int, ...]


def _float32(logits: mx.array) -> Any:
    return np.array(logits.astype(mx.float32))


@dataclass
class TargetReading:
    """What the target made of the tokens that it was last fed.

    Attributes:
        target: The target.
        heads: Read its hidden states.
        tokens: The tokens in its cache.
        hidden: Its hidden state behind each, shape (1, hidden size).
    """

    target: FittedModel
    heads: PredictionHeads
    tokens: Tokens = ()
    hidden: list[mx.array] = field(default_factory=list)
    _cache: SequenceCache | None = None

    def read(self, tokens: Tokens, note: Callable[[Tokens, Any], None]) -> None:
        """Read tokens on from what was read before, and note the row behind each new one."""
        shared = _shared(self.tokens, tokens)
        if self._cache is None or not self._go_back(shared):
            self._cache, shared = self.target.new_cache(), 0
        del self.hidden[shared:]
        if tokens[shared:]:
            fed = mx.array(tokens[shared:], dtype=mx.uint32)
            logits, record = self._cache.feed_recorded(self.target.model, fed)
            hidden, rows = self.heads.hidden(record), self.target.fit(logits)
            mx.eval(hidden, rows)
            self.hidden += [hidden[row : row + 1] for row in range(len(fed))]
            for place, row in enumerate(_float32(rows), start=shared + 1):
                note(tokens[:place], row)
        self.tokens = tokens

    def _go_back(self, length: int) -> bool:
        """Roll back, if what was fed since may still be taken back: only the latest feeds may."""
        assert self._cache is not None, "only what was read can be taken back"
        try:
            self._cache.rollback(length)
        except CapabilityError:
            return False
        return True


@dataclass
class HeadReading:
    """What the head made of the tokens that it was last fed: true rows, then the guesses of one block.

    Attributes:
        target: The target.
        heads: Its heads, one stage that is iterated.
        inputs: The token of each of its rows, and whether the row read the target's hidden state.
        outputs: Its output at each row.
    """

    target: FittedModel
    heads: PredictionHeads
    inputs: tuple[tuple[int, bool], ...] = ()
    outputs: list[mx.array] = field(default_factory=list)
    _cache: Any = None

    def row(self, tokens: Tokens, depth: int, hidden: Sequence[mx.array]) -> Any:
        """Logits behind `tokens`, whose last `depth` are proposals that no target has read, shape (V,), float32."""
        true = len(tokens) - 1 - depth
        wanted = tuple((token, row < true) for row, token in enumerate(tokens[1:]))
        shared = _shared(self.inputs, wanted)
        if self._cache is None:
            self._cache = self.heads.new_caches()[0]
        self._cache.rollback(shared)
        del self.outputs[shared:]
        if shared < true:
            self._step(mx.concatenate(list(hidden[shared:true])), tokens[shared + 1 : true + 1])
        for row in range(max(true, shared), len(wanted)):
            self._step(self.outputs[row - 1], tokens[row + 1 : row + 2])
        self.inputs = wanted
        logits = self.target.fit(self.heads.logits(0, self.outputs[-1]))
        return _float32(logits)[0]

    def _step(self, hidden: mx.array, tokens: Tokens) -> None:
        made = self.heads.step(0, hidden, mx.array(tokens, dtype=mx.uint32), self._cache)
        mx.eval(made)
        self.outputs += [made[row : row + 1] for row in range(len(tokens))]


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Length of the common beginning."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


class CheckpointRows:
    """Rows by the tokens before them, read where they are not remembered.

    Args:
        target: The target, its hidden states tapped.
        heads: Its heads: one stage that is iterated, as the shipped checkpoints have it.
    """

    def __init__(self, target: FittedModel, heads: PredictionHeads) -> None:
        assert heads.traits.stages == 1, "a reading iterates one stage"
        self.target = target
        self._reading, self._head = TargetReading(target, heads), HeadReading(target, heads)
        self._rows: OrderedDict[Tokens, Any] = OrderedDict()
        self._drafts: OrderedDict[tuple[Tokens, int], Any] = OrderedDict()

    def foresee(self, tokens: Tokens) -> None:
        """Read tokens in one forward pass, for their rows will be asked for one by one."""
        if any(tokens[:place] not in self._rows for place in range(1, len(tokens) + 1)):
            self._reading.read(tokens, lambda before, row: _remember(self._rows, before, row))

    def target_row(self, tokens: Tokens) -> Row:
        """The target's logits behind `tokens`, shape (V,)."""
        if tokens not in self._rows:
            self.foresee(tokens)
        return _recall(self._rows, tokens)

    def draft_row(self, tokens: Tokens, depth: int) -> Row:
        """The head's logits behind `tokens` at a depth of its block, from 0, shape (V,)."""
        key = (tokens, depth)
        if key not in self._drafts:
            read = tokens[: len(tokens) - 1 - depth]
            if self._reading.tokens[: len(read)] != read:
                self._reading.read(read, lambda before, row: _remember(self._rows, before, row))
            _remember(self._drafts, key, self._head.row(tokens, depth, self._reading.hidden))
        return _recall(self._drafts, key)


def _remember(memory: OrderedDict[Any, Any], key: Any, row: Any) -> None:
    memory[key] = row
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _recall(memory: OrderedDict[Any, Any], key: Any) -> Row:
    memory.move_to_end(key)
    row: Row = memory[key].astype(np.float64)
    return row
