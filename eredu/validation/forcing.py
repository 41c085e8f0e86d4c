"""Teacher forcing on the plain path: the rows that an output's tokens should have been drawn from.

The text is read once from a fresh cache, without drafts, rollbacks or the scheduler, so nothing of what is validated
takes part. Rows are processed by the one row function and normalised in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.engine.models import AssistantModel, TargetModel
from eredu.families.head import PredictionHeads
from eredu.families.teacher_forcing import outputs_along
from eredu.mlx.cache import SequenceCache
from eredu.mlx.history import HistoryRows
from eredu.mlx.rows import process_rows
from eredu.mlx.taps import Recording
from eredu.options import SamplingOptions

PROMPT_CHUNK = 512
"""Prompt tokens fed at once."""
ROW_CHUNK = 64
"""Rows whose logits are in memory at once."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Text:
    """A prompt with its output.

    Attributes:
        prompt: Prompt ids, at least one.
        output: Output ids, at least one.
    """

    prompt: Sequence[int]
    output: Sequence[int]

    @property
    def tokens(self) -> list[int]:
        """All ids."""
        return [*self.prompt, *self.output]

    @property
    def inputs(self) -> list[int]:
        """The ids whose rows predict the output, in order: the last of the prompt, then the output but its last."""
        return self.tokens[len(self.prompt) - 1 : -1]

    def history(self, vocabulary: int) -> HistoryRows:
        """What was said before each output token."""
        pending = mx.array(list(self.output), dtype=mx.uint32)
        return HistoryRows(self.prompt, (), pending, range(len(self.output)), vocabulary)


def normalised(scores: mx.array) -> Rows:
    """Softmax of processed scores in float64, shape (rows, vocabulary)."""
    values = np.array(scores.astype(mx.float32)).astype(np.float64)
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    rows: Rows = weights / weights.sum(axis=-1, keepdims=True)
    return rows


def processed(logits: mx.array, sampling: SamplingOptions, text: Text) -> Rows:
    """Processed distributions of the rows that predict the output, shape (output tokens, vocabulary)."""
    history = text.history(logits.shape[-1]) if sampling.has_penalties else None
    return normalised(process_rows(logits, sampling, history=history))


@dataclass(frozen=True, eq=False)
class TargetReading:
    """What a target made of a text.

    Attributes:
        logits: Before each output token, shape (output tokens, vocabulary), padding ids excluded.
        hidden: Hidden states that heads read, shape (tokens - 1, hidden size); None where they were not asked for.
    """

    logits: mx.array
    hidden: mx.array | None


def read_target(target: TargetModel, text: Text, heads: PredictionHeads | None = None) -> TargetReading:
    """Read a text once, with the hidden states that `heads` read if they are given; the heads' taps must be set."""
    logits, records = _read(target, target.new_cache(), text)
    hidden = None if heads is None else mx.concatenate([heads.hidden(record)[:rows] for record, rows in records])
    return TargetReading(target.fit(logits), hidden)


def assistant_logits(assistant: AssistantModel, text: Text) -> mx.array:
    """The same of an assistant; fewer rows where its context ends before the text does."""
    room = assistant.context - len(text.prompt) + 1
    within = Text(text.prompt, text.output[: max(0, room)])
    if not within.output:
        return mx.zeros((0, assistant.rows))
    return assistant.fit(_read(assistant, assistant.new_cache(), within)[0])


def head_logits(
    target: TargetModel, heads: PredictionHeads, text: Text, hidden: mx.array, depths: Sequence[int]
) -> tuple[mx.array, NDArray[np.bool_]]:
    """Logits of heads before each output token, as they draft it at a given depth of a block.

    Args:
        target: The target.
        heads: The heads.
        text: The text.
        hidden: The hidden states that they read, shape (tokens - 1, hidden size).
        depths: For each output token the place in its block, from 0.

    Returns:
        Shape (output tokens, vocabulary), and which rows are known, shape (output tokens,): a block cannot begin
        before the target has read a token.
    """
    along = outputs_along(heads, hidden, mx.array(text.tokens[:-1], dtype=mx.uint32), max(depths) + 1)
    starts = [len(text.prompt) + place - 2 - depth for place, depth in enumerate(depths)]
    width = target.vocabulary_size
    made = [mx.zeros((1, width))] * len(starts)
    for depth in sorted(set(depths)):
        places = [place for place, start in enumerate(starts) if depths[place] == depth and start >= 0]
        if places:
            rows = along[depth][mx.array([starts[place] for place in places])]
            logits = target.fit(heads.logits(heads.traits.stage_of(depth), rows))
            for row, place in enumerate(places):
                made[place] = logits[row : row + 1]
    return mx.concatenate(made), np.array(starts) >= 0


def _read(
    model: TargetModel | AssistantModel, cache: SequenceCache, text: Text
) -> tuple[mx.array, list[tuple[Recording, int]]]:
    """Logits before each output token, and what the tapped modules saw, with the rows that count."""
    prompt, records = text.prompt[:-1], []
    for start in range(0, len(prompt), PROMPT_CHUNK):
        chunk = prompt[start : start + PROMPT_CHUNK]
        records.append((cache.prefill(model.model, chunk), len(chunk)))
        mx.eval(*cache.arrays(), *records[-1][0].outputs.values())
    inputs, parts = mx.array(text.inputs, dtype=mx.uint32), []
    for start in range(0, inputs.shape[0], ROW_CHUNK):
        logits, record = cache.feed_recorded(model.model, inputs[start : start + ROW_CHUNK])
        parts.append(logits)
        records.append((record, logits.shape[0]))
        mx.eval(logits)
    return mx.concatenate(parts), records
