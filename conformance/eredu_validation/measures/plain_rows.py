"""Teacher forcing on the plain path: the rows that an output's tokens should have been drawn from.

A prompt is read once from an empty cache, and every output behind a clone of what that gave, without drafts, rollbacks
or the scheduler, so nothing of what is validated takes part. Rows are processed by the one row function and normalised
in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.contract.options import SamplingOptions
from eredu_validation.measures.inside import (
    FittedModel,
    HistoryRows,
    PredictionHeads,
    outputs_along,
    process_rows,
)
from eredu_validation.measures.prompt_states import PromptState, PromptStates

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
    rows: Rows = np.array(scores.astype(mx.float32)).astype(np.float64)
    rows -= rows.max(axis=-1, keepdims=True)
    np.exp(rows, out=rows)
    rows /= rows.sum(axis=-1, keepdims=True)
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


def read_target(
    target: FittedModel, text: Text, heads: PredictionHeads | None = None, *, prompts: PromptStates | None = None
) -> TargetReading:
    """Read a text, with the hidden states that `heads` read if they are given; the heads' taps must be set.

    Args:
        target: The target.
        text: The text.
        heads: Its heads, or None.
        prompts: Keeps what was read of prompts, for the next text; None reads the whole text.
    """
    state = (prompts or PromptStates()).of(target, text.prompt, heads)
    logits, hidden = _read_output(target, state, text, heads)
    return TargetReading(target.fit(logits), hidden)


def assistant_logits(assistant: FittedModel, text: Text, *, prompts: PromptStates | None = None) -> mx.array:
    """Logits of an assistant before each output token; fewer rows where its context ends before the text does."""
    room = assistant.context - len(text.prompt) + 1
    within = Text(text.prompt, text.output[: max(0, room)])
    if not within.output:
        return mx.zeros((0, assistant.vocabulary_size))
    state = (prompts or PromptStates()).of(assistant, text.prompt)
    return assistant.fit(_read_output(assistant, state, within, None)[0])


def head_logits(
    target: FittedModel, heads: PredictionHeads, text: Text, hidden: mx.array, depths: Sequence[int]
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
    starts = np.array([len(text.prompt) + place - 2 - depth for place, depth in enumerate(depths)])
    known, number = starts >= 0, np.array(depths)
    if not known.any():
        return mx.zeros((len(depths), target.vocabulary_size)), known
    first, deepest = int(starts[known].min()), int(number[known].max())
    along = outputs_along(heads, hidden, mx.array(text.tokens[:-1], dtype=mx.uint32), deepest + 1, first=first)
    places, parts = [np.flatnonzero(~known)], [mx.zeros((int((~known).sum()), target.vocabulary_size))]
    for depth in range(deepest + 1):
        here = np.flatnonzero(known & (number == depth))
        if len(here):
            rows = along[depth][mx.array(starts[here] - first)]
            places.append(here)
            parts.append(target.fit(heads.logits(heads.traits.stage_of(depth), rows)))
    order = np.argsort(np.concatenate(places))
    return mx.concatenate(parts)[mx.array(order)], known


def _read_output(
    model: FittedModel, state: PromptState, text: Text, heads: PredictionHeads | None
) -> tuple[mx.array, mx.array | None]:
    """Logits before each output token, and the hidden states of the whole text that heads read."""
    cache, hidden = state.cache.clone(), list(state.hidden)
    inputs, parts = mx.array(text.inputs, dtype=mx.uint32), []
    for start in range(0, inputs.shape[0], ROW_CHUNK):
        logits, record = cache.feed_recorded(model.model, inputs[start : start + ROW_CHUNK])
        parts.append(logits)
        if heads is not None:
            hidden.append(heads.hidden(record))
        mx.eval(logits, hidden[-1:])
    return mx.concatenate(parts), mx.concatenate(hidden) if hidden else None
