"""How well heads follow their target along a text, row by row: the measure that tells a right wiring from a wrong one.

Both read the text once, and nothing is decoded. The measure of a row is the chance that the ratio
rule takes a proposal there, the sum over x of min(p(x), q(x)) (Leviathan et al. 2023, arXiv 2211.17192).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.families.prediction_heads import PredictionHeads
from eredu.families.teacher_forcing import outputs_along
from eredu.mlx.models import FittedModel
from eredu.mlx.taps import Recording

CHUNK_ROWS = 64
"""Rows whose logits are in memory at once."""


@dataclass(frozen=True, eq=False)
class TargetRows:
    """What a target made of a text.

    Attributes:
        tokens: The text, shape (tokens,), uint32.
        logits: Its logits, shape (tokens, vocabulary).
        record: What its tapped modules saw.
        first: Index of the first token that counts; those before are the prompt.
    """

    tokens: mx.array
    logits: mx.array
    record: Recording
    first: int
    _laws: dict[float, mx.array] = field(default_factory=dict)

    @classmethod
    def read(cls, target: FittedModel, tokens: Sequence[int], first: int = 1) -> TargetRows:
        """Feed a text to the target; heads that read it must have tapped the target before."""
        text = mx.array(list(tokens), dtype=mx.uint32)
        logits, record = target.new_cache().feed_recorded(target.model, text)
        return cls(text, target.fit(logits), record, first)

    def law(self, temperature: float) -> mx.array:
        """The target's law at every row, shape (tokens, vocabulary); evaluated once for each temperature."""
        if temperature not in self._laws:
            self._laws[temperature] = _law(self.logits, temperature)
            mx.eval(self._laws[temperature])
        return self._laws[temperature]


@dataclass(frozen=True, eq=False)
class FollowedRows:
    """How heads follow at one depth.

    Attributes:
        accept: Chance that a proposal is taken, for each token from the first that counts and has a row; float64.
        agrees: Whether the most probable ids of target and head are one, likewise; bool.
        ratio: min(1, q/p) at the token of the text, likewise; float64: the chance that the head proposes this token
            and the rule takes it, over the target's chance of writing it.
    """

    accept: NDArray[np.float64]
    agrees: NDArray[np.bool_]
    ratio: NDArray[np.float64]


def follow(heads: PredictionHeads, rows: TargetRows, depth: int, *, temperature: float = 1.0) -> list[FollowedRows]:
    """Measure heads at depths 0 to `depth` - 1, at a temperature above 0.

    Entry i of depth d is about token max(first, 2 + d) + i.
    """
    outputs = outputs_along(heads, heads.hidden(rows.record), rows.tokens, depth)
    followed = []
    for index, made in enumerate(outputs):
        start = max(rows.first, 2 + index)
        stage = heads.traits.stage_of(index)
        parts = []
        for at in range(start, rows.tokens.shape[0], CHUNK_ROWS):
            stop = min(at + CHUNK_ROWS, rows.tokens.shape[0])
            q = _law(heads.logits(stage, made[at - 2 - index : stop - 2 - index]), temperature)
            parts.append(_compare(rows.law(temperature)[at - 1 : stop - 1], q, rows.tokens[at:stop]))
        accept, agrees, ratio = (np.concatenate([part[column] for part in parts]) for column in range(3))
        followed.append(FollowedRows(accept.astype(np.float64), agrees.astype(np.bool_), ratio.astype(np.float64)))
    return followed


def _law(logits: mx.array, temperature: float) -> mx.array:
    return mx.softmax(logits.astype(mx.float32) / temperature, axis=-1, precise=True)


def _compare(p: mx.array, q: mx.array, text: mx.array) -> tuple[NDArray[Any], ...]:
    """Acceptance, agreement and ratio of rows of laws, each of shape (rows, vocabulary), at the text's tokens."""
    accept = mx.minimum(p, q).sum(axis=-1)
    agrees = mx.argmax(p, axis=-1) == mx.argmax(q, axis=-1)
    ratio = mx.take_along_axis(q, text[:, None], axis=-1) / mx.take_along_axis(p, text[:, None], axis=-1)
    follows = mx.minimum(ratio[:, 0], 1.0)
    mx.eval(accept, agrees, follows)
    return np.array(accept), np.array(agrees), np.array(follows)
