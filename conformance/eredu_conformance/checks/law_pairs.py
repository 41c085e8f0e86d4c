"""Small pairs for laws: three ids, so that joint laws have few cells and a small sample says much.

What a wrong acceptance does to the law depends on how p and q lie. `law-even` and `law-sure` are where most of the
known faults of acceptance move the joint law of three tokens the furthest, by exact enumeration on the reference:

| fault | KL per output on `law-even` | `law-sure` | `law-order-2` |
| --- | --- | --- | --- |
| q missing from the ratio | 0.75 | 0.00 | 0.20 |
| greedy draft called sampled | 1.6 | 0.2 | 0.30 |
| block verification stops at the first failure | 0.45 | 0.12 | 0.07 |
| replacement drawn from p | 0.01 | 0.22 | 0.14 |
| residual not normalised | 0.02 | 0.20 | 0.29 |
| one coin for a block | 0.01 | 0.26 | 0.08 |
| proposals accepted behind a rejection | 0.01 | 0.28 | 0.06 |
| first proposal not verified | 0.01 | 0.53 | 0.18 |
| bonus drawn from the draft | 0.01 | 0.59 | 0.40 |
"""

from __future__ import annotations

from functools import cache

import numpy as np

from eredu_conformance.crafted import (
    CheckpointPair,
    LagCheckpoint,
    MemoryCheckpoint,
    PositionCheckpoint,
)
from eredu_conformance.crafted.tables import forbid, mix, random_table


@cache
def law_pairs() -> dict[str, CheckpointPair]:
    """All of them by name."""
    pairs = (_even(), _sure(), _order_two(), _near(), _zeros(), _counts(), _window(), _position())
    return {pair.name: pair for pair in pairs}


def _even() -> CheckpointPair:
    ids = np.arange(3)
    scarce = (ids[:, None, None] + 2 * ids[None, :, None]) % 3 == ids[None, None, :]
    target = LagCheckpoint(name="law-even", probabilities=np.full((3, 3, 3), 1 / 3))
    draft = LagCheckpoint(name="law-even-draft", probabilities=np.where(scarce, 1 / 3 - 0.09, 1 / 3 + 0.045))
    return CheckpointPair("law-even", target, draft, (0, 2), "p and q nearly alike, one id left to replace by")


def _sure() -> CheckpointPair:
    ids = np.arange(3)
    favoured = (ids[:, None, None] + 2 * ids[None, :, None] + 1) % 3 == ids[None, None, :]
    target = LagCheckpoint(name="law-sure", probabilities=np.where(favoured, 0.5, 0.25))
    draft = LagCheckpoint(name="law-sure-draft", probabilities=np.where(favoured, 0.96, 0.02))
    return CheckpointPair("law-sure", target, draft, (0, 2), "a draft that is sure of what p gives a half")


def _order_two() -> CheckpointPair:
    target = LagCheckpoint(name="law-order-2", probabilities=random_table(88, (3, 3, 3), concentration=0.8))
    draft = LagCheckpoint(name="law-order-2-draft", probabilities=random_table(188, (3, 3, 3), concentration=0.8))
    return CheckpointPair("law-order-2", target, draft, (0, 2), "two tokens decide, p and q far apart")


def _near() -> CheckpointPair:
    target = _order_two().target
    assert isinstance(target, LagCheckpoint)
    near = mix(target.probabilities, random_table(73, (3, 3, 3)), 0.35)
    draft = LagCheckpoint(name="law-near-draft", probabilities=near)
    return CheckpointPair("law-near", target, draft, (1, 2), "most proposals accepted, branches promoted")


def _zeros() -> CheckpointPair:
    ids = np.arange(3)
    step = (ids[None, None, :] - ids[None, :, None] + ids[:, None, None]) % 3
    target = LagCheckpoint(name="law-zeros", probabilities=forbid(random_table(74, (3, 3, 3)), step == 1))
    draft = LagCheckpoint(name="law-zeros-draft", probabilities=forbid(random_table(75, (3, 3, 3)), step == 2))
    return CheckpointPair("law-zeros", target, draft, (2, 0), "ids with p = 0 < q and with q = 0 < p")


def _counts() -> CheckpointPair:
    generator = np.random.default_rng(76)
    gains = generator.normal(0, 2, (3, 3)) - 5 * np.eye(3)
    target = MemoryCheckpoint(name="law-counts", probabilities=random_table(77, (3, 3), concentration=2.0), gains=gains)
    draft = LagCheckpoint(name="law-counts-draft", probabilities=random_table(78, (3, 3, 3)))
    return CheckpointPair("law-counts", target, draft, (0, 1), "the counts of all tokens decide")


def _window() -> CheckpointPair:
    target = LagCheckpoint(
        name="law-window", probabilities=random_table(79, (3, 3, 3), concentration=0.8), lag=2, sliding=3
    )
    draft = LagCheckpoint(
        name="law-window-draft", probabilities=random_table(80, (3, 3, 3), concentration=0.8), lag=2, sliding=3
    )
    return CheckpointPair("law-window", target, draft, (0, 1, 2), "the oldest row of a window of 3 decides")


def _position() -> CheckpointPair:
    anchored = forbid(random_table(81, (4, 4), concentration=3.0), np.arange(4) == 0)
    target = PositionCheckpoint(
        name="law-position", probabilities=anchored, residues=random_table(82, (7, 4), concentration=0.5)
    )
    draft = PositionCheckpoint(
        name="law-position-draft", probabilities=anchored, residues=random_table(83, (7, 4), concentration=0.5)
    )
    return CheckpointPair("law-position", target, draft, (0, 2), "the position modulo 7 decides")
