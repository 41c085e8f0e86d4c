"""How well heads follow their target along a text, row by row: the measure that tells a right wiring from a wrong one.

Both read the text once, at temperature 1, and nothing is decoded. The measure of a row is the chance that the ratio
rule takes a proposal there, the sum over x of min(p(x), q(x)) (Leviathan et al. 2023, arXiv 2211.17192).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.engine.models import TargetModel
from eredu.families.head import PredictionHeads
from eredu.families.teacher_forcing import outputs_along
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

    @classmethod
    def read(cls, target: TargetModel, tokens: Sequence[int], first: int = 1) -> TargetRows:
        """Feed a text to the target; heads that read it must have tapped the target before."""
        text = mx.array(list(tokens), dtype=mx.uint32)
        logits, record = target.new_cache().feed_recorded(target.model, text)
        return cls(text, target.fit(logits), record, first)


@dataclass(frozen=True, eq=False)
class FollowedRows:
    """How heads follow at one depth.

    Attributes:
        accept: Chance that a proposal is taken, for each token from the first that counts and has a row; float64.
        agrees: Whether the most probable ids of target and head are one, likewise; bool.
    """

    accept: NDArray[np.float64]
    agrees: NDArray[np.bool_]


def follow(heads: PredictionHeads, rows: TargetRows, depth: int) -> list[FollowedRows]:
    """Measure heads at depths 0 to `depth` - 1; entry i of each is about token max(first, 2 + depth) + i."""
    outputs = outputs_along(heads, heads.hidden(rows.record), rows.tokens, depth)
    followed = []
    for index, made in enumerate(outputs):
        start = max(rows.first, 2 + index)
        stage = heads.traits.stage_of(index)
        parts = [
            _compare(heads.logits(stage, made[at - 2 - index : stop - 2 - index]), rows.logits[at - 1 : stop - 1])
            for at, stop in _chunks(start, rows.tokens.shape[0])
        ]
        followed.append(
            FollowedRows(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))
        )
    return followed


def _chunks(start: int, stop: int) -> list[tuple[int, int]]:
    return [(at, min(at + CHUNK_ROWS, stop)) for at in range(start, stop, CHUNK_ROWS)]


def _compare(head: mx.array, target: mx.array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Acceptance and agreement of rows of logits, each of shape (rows, vocabulary)."""
    p, q = (mx.softmax(logits.astype(mx.float32), axis=-1, precise=True) for logits in (target, head))
    accept = mx.minimum(p, q).sum(axis=-1)
    agrees = mx.argmax(target, axis=-1) == mx.argmax(head, axis=-1)
    return np.array(accept, dtype=np.float64), np.array(agrees)
