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


def target_logits(target: TargetModel, text: Text) -> mx.array:
    """The target's logits before each output token, shape (output tokens, vocabulary), padding ids excluded."""
    return target.fit(_read(target, target.new_cache(), text))


def assistant_logits(assistant: AssistantModel, text: Text) -> mx.array:
    """The same of an assistant; fewer rows where its context ends before the text does."""
    room = assistant.context - len(text.prompt) + 1
    within = Text(text.prompt, text.output[: max(0, room)])
    if not within.output:
        return mx.zeros((0, assistant.rows))
    return assistant.fit(_read(assistant, assistant.new_cache(), within))


def head_logits(
    target: TargetModel, heads: PredictionHeads, text: Text, depths: Sequence[int]
) -> tuple[mx.array, NDArray[np.bool_]]:
    """Logits of heads before each output token, as they draft it at a given depth of a block.

    Args:
        target: The target, whose hidden states the heads read.
        heads: The heads.
        text: The text.
        depths: For each output token the place in its block, from 0.

    Returns:
        Shape (output tokens, vocabulary), and which rows are known, shape (output tokens,): a block cannot begin
        before the target has read a token.
    """
    read = text.tokens[:-1]
    along = outputs_along(heads, _hidden(target, heads, read), mx.array(read, dtype=mx.uint32), max(depths) + 1)
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


def _hidden(target: TargetModel, heads: PredictionHeads, tokens: Sequence[int]) -> mx.array:
    """The target's hidden states that the heads read, shape (tokens, hidden size)."""
    cache, parts = target.new_cache(), []
    for start in range(0, len(tokens), PROMPT_CHUNK):
        chunk = tokens[start : start + PROMPT_CHUNK]
        parts.append(heads.hidden(cache.prefill(target.model, chunk))[: len(chunk)])
        mx.eval(parts[-1], *cache.arrays())
    return mx.concatenate(parts)


def _read(model: TargetModel | AssistantModel, cache: SequenceCache, text: Text) -> mx.array:
    prompt = text.prompt[:-1]
    for start in range(0, len(prompt), PROMPT_CHUNK):
        cache.prefill(model.model, prompt[start : start + PROMPT_CHUNK])
        mx.eval(*cache.arrays())
    inputs, parts = mx.array(text.inputs, dtype=mx.uint32), []
    for start in range(0, inputs.shape[0], ROW_CHUNK):
        parts.append(cache.feed(model.model, inputs[start : start + ROW_CHUNK]))
        mx.eval(parts[-1])
    return mx.concatenate(parts)
