"""State of the heads for one sequence: what each stage has read for good, what waits, and what was a guess.

Stage s reads a stream of hidden rows, one a position t: stage 0 the target's own, stage s + 1 the outputs of stage s.
At position t it also reads token t + 1 + s and predicts token t + 2 + s. A row is true once that token is committed; a
row made from a proposal is a guess and is rolled back at the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from eredu.families.prediction_heads import PredictionHeads


@dataclass(slots=True)
class StageState:
    """One stage.

    Attributes:
        cache: Its true rows, then the guesses of the current block.
        true_rows: How many of its rows are true.
        pending: True hidden rows behind those, not read for good yet, in order, each of shape (rows, hidden size).
    """

    cache: Any
    true_rows: int = 0
    pending: list[mx.array] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        """Pending rows."""
        return sum(rows.shape[0] for rows in self.pending)

    def take(self, count: int) -> list[mx.array]:
        """The first `count` pending rows as arrays; they are true rows from now on."""
        if count == 0:
            return []
        joined = self.pending[0] if len(self.pending) == 1 else mx.concatenate(self.pending)
        self.pending = [joined[count:]] if joined.shape[0] > count else []
        self.true_rows += count
        return [joined[:count]]


@dataclass(slots=True)
class HeadState:
    """All stages of one sequence.

    Attributes:
        stages: State of each stage.
        outputs: Outputs of the block's latest step, shape (rows, hidden size); the last row made the last proposal.
    """

    stages: list[StageState]
    outputs: mx.array | None = None

    @classmethod
    def of(cls, heads: PredictionHeads, bucket: int | None = None, *, depth: int | None = None) -> HeadState:
        """Nothing read yet; for `bucket` see `RollbackCache`.

        Stages behind `depth` proposals a round would only be warmed, and what they wait for kept, so there are none.
        """
        return cls([StageState(cache) for cache in heads.new_caches(bucket)[:depth]])

    def read_prompt(self, heads: PredictionHeads, tokens: list[int], hidden: mx.array) -> list[mx.array]:
        """Take in the target's hidden rows of a prompt chunk and warm the stages; return what must be evaluated.

        The last row that each stage could read stays pending: the first draft step needs its output.
        """
        made: list[mx.array] = []
        if not self.stages:
            return made
        self.stages[0].pending.append(hidden)
        for number, stage in enumerate(self.stages):
            rows = min(stage.waiting, len(tokens) - 2 - number - stage.true_rows)
            if rows <= 0:
                break
            behind = tokens[stage.true_rows + 1 + number :][:rows]
            outputs = heads.step(number, stage.take(rows)[0], mx.array(behind, dtype=mx.uint32), stage.cache)
            made.append(outputs)
            if number + 1 < len(self.stages):
                self.stages[number + 1].pending.append(outputs)
        return made

    def draft_step(
        self, heads: PredictionHeads, index: int, committed: list[int], proposals: list[mx.array]
    ) -> mx.array:
        """Run the step that makes proposal `index`, from 0; return its logits, shape (1, vocabulary)."""
        number = heads.traits.stage_of(index)
        if index >= heads.traits.stages:
            hidden, tokens, true_rows = _last(self.outputs), proposals[-1], 0
        else:
            stage = self.stages[number]
            true_rows = max(0, len(committed) - 1 - number - stage.true_rows)
            guesses = [] if number == 0 else [_last(self.outputs, number)]
            known = committed[stage.true_rows + 1 + number :][:true_rows]
            guessed = proposals[len(proposals) - guesses[0].shape[0] :] if guesses else []
            parts = [mx.array(known, dtype=mx.uint32)] if known else []
            tokens = mx.concatenate([*parts, *guessed])
            hidden = mx.concatenate([*stage.take(true_rows), *guesses])
        outputs = heads.step(number, hidden, tokens, self.stages[number].cache)
        if true_rows and number + 1 < len(self.stages):
            self.stages[number + 1].pending.append(outputs[:true_rows])
        self.outputs = outputs
        return heads.logits(number, outputs[-1:])

    def settle(self, hidden: mx.array) -> None:
        """Drop every guess, and let the target's hidden rows that stand, shape (rows, hidden size), wait."""
        for stage in self.stages:
            stage.cache.rollback(stage.true_rows)
        if hidden.shape[0] and self.stages:
            self.stages[0].pending.append(hidden)
        self.outputs = None


def _last(outputs: mx.array | None, rows: int = 1) -> mx.array:
    if outputs is None:
        raise ValueError("a deeper draft step came before the first one of its block")
    return outputs[-rows:]
