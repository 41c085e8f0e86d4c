"""Pairs whose draft is the target, made wrong in chosen contexts: it errs at chosen places of a block, and only there.

In a part of the contexts (pairs of tokens, counted tokens, residues of the position) it proposes another id than the
target's favourite. Over the parts every accepted length from 0 to K occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np

from eredu_conformance.crafted import (
    CheckpointPair,
    CraftedCheckpoint,
    LagCheckpoint,
    MemoryCheckpoint,
    PositionCheckpoint,
    crafted_pair,
)
from eredu_conformance.crafted.architecture import Tensor

PARTS = (0, 1, 2)
SENSITIVE = (
    "order-2",
    "lag-5",
    "counts",
    "fading",
    "position",
    "position-13",
    "window-4",
    "window-6",
    "window-16",
)
"""Crafted pairs whose target sees a wrong row, each in its own way."""

T = TypeVar("T", bound=CraftedCheckpoint)


@cache
def forced_pair(name: str, part: int | None) -> CheckpointPair:
    """The target of a crafted pair with a draft that is wrong in a part of the contexts; None is wrong nowhere."""
    pair = crafted_pair(name)
    if part is None:
        draft, label = pair.target, "right"
    else:
        draft, label = _spoilt(pair.target, part), f"wrong-{part}"
    return CheckpointPair(
        f"forced-{name}-{label}", pair.target, draft, pair.prompt, f"{pair.aim}; the draft is {label}"
    )


def forced_pairs() -> Iterator[CheckpointPair]:
    """Every forced pair."""
    for name in SENSITIVE:
        for part in (None, *PARTS):
            yield forced_pair(name, part)


def _spoilt(target: CraftedCheckpoint, part: int) -> CraftedCheckpoint:
    name = f"{target.name}-wrong-{part}"
    match target:
        case LagCheckpoint():
            size = target.vocabulary
            contexts = (np.arange(size)[:, None] * size + np.arange(size)[None, :]) % 4 == part
            return replace(target, name=name, probabilities=_rolled(target.probabilities, contexts))
        case MemoryCheckpoint():
            gains = target.gains.copy()
            columns = np.arange(target.vocabulary) % 3 == part
            gains[:, columns] = np.roll(target.gains, 1, axis=0)[:, columns]
            return replace(target, name=name, gains=gains)
        case PositionCheckpoint():
            residues = np.arange(target.period) % 3 == part
            return replace(target, name=name, residues=_rolled(target.residues, residues))
    raise TypeError(f"{target.name} is a {type(target).__name__}; no way to spoil it is known")


def _rolled(rows: Tensor, where: Tensor) -> Tensor:
    """The rows, with those of the mask moved on by one id."""
    return np.where(where[..., None], np.roll(rows, 1, axis=-1), rows)
