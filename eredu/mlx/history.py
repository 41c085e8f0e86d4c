"""What was said before each row of a block, as the penalties see it.

Row i of a block is preceded by the committed tokens and by the first i tokens that are still on the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx


# rule: verify.rows-see-prefix
class HistoryRows:
    """History of consecutive rows.

    Args:
        prompt: Prompt ids.
        output: Committed output ids.
        pending: Ids behind them that the host does not know yet, shape (count,), or None.
        rows: Preceding pending tokens of each row.
        vocabulary: Size of the rows that are made.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        output: Sequence[int],
        pending: mx.array | None,
        rows: range,
        vocabulary: int,
    ) -> None:
        self._prompt = prompt
        self._output = output
        self._pending = pending
        self._rows = rows
        self._vocabulary = vocabulary

    def recent(self, last: int) -> mx.array:
        """Whether an id is among the last tokens (all of them if `last` is 0), shape (rows, vocabulary), bool."""
        committed = [*self._prompt, *self._output] if last == 0 else self._tail(last)
        known = mx.array(committed, dtype=mx.uint32)
        pending = [] if self._pending is None else [self._pending.astype(mx.uint32)]
        tokens = mx.concatenate([known, *pending])
        seen = []
        for ahead in self._rows:
            end = len(committed) + ahead
            start = 0 if last == 0 else max(0, end - last)
            seen.append(self._counts(tokens[start:end]) > 0)
        return mx.stack(seen)

    def generated(self) -> mx.array:
        """How often each id was generated, shape (rows, vocabulary), float32."""
        base = self._counts(mx.array(list(self._output), dtype=mx.uint32))
        if self._pending is None:
            return mx.stack([base for _ in self._rows])
        return mx.stack([base + self._counts(self._pending[:ahead]) for ahead in self._rows])

    def _tail(self, last: int) -> list[int]:
        missing = last - len(self._output)
        return [*(self._prompt[-missing:] if missing > 0 else ()), *self._output[-last:]]

    def _counts(self, tokens: mx.array) -> mx.array:
        counts = mx.zeros((self._vocabulary,), dtype=mx.float32)
        return counts if tokens.size == 0 else counts.at[tokens].add(1.0)
