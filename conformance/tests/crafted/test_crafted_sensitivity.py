"""A wrong cache changes the law: what each kind of law notices, and what it can't.

Each fault is made on mlx-lm's own cache, behind the first tokens of a history; then one more token is fed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache
from mlx_lm.utils import load_model

from eredu_conformance.crafted import CraftedCheckpoint, crafted_pair
from eredu_conformance.crafted.architecture import Tensor

Written = Callable[[CraftedCheckpoint], Path]
Histories = Callable[[CraftedCheckpoint], tuple[int, ...]]
Cache = list[Any]
Fault = Callable[[Any, Cache, Sequence[int]], Cache]

CUT = 20
"""The fault happens behind this many tokens."""


class Late:
    """A layer's cache that reports its rows faithfully and its position one too late."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def offset(self) -> int:
        return int(self.inner.offset) + 1

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        return self.inner.update_and_fetch(keys, values)

    def make_mask(self, *arguments: Any, **options: Any) -> Any:
        return self.inner.make_mask(*arguments, **options)


def stale(model: Any, cache: Cache, history: Sequence[int]) -> Cache:
    rejected = next(token for token in (1, 2, 3) if token not in (history[CUT - 1], history[CUT]))
    model(mx.array([[rejected]]), cache=cache)
    return cache


def missing(model: Any, cache: Cache, history: Sequence[int]) -> Cache:
    assert trim_prompt_cache(cache, 1) == 1
    return cache


def doubled(model: Any, cache: Cache, history: Sequence[int]) -> Cache:
    model(mx.array([[history[CUT - 1]]]), cache=cache)
    return cache


def late(model: Any, cache: Cache, history: Sequence[int]) -> Cache:
    return [Late(layer) for layer in cache]


def next_law(model: Any, history: Sequence[int], fault: Fault | None) -> Tensor:
    cache = make_prompt_cache(model)
    model(mx.array([history[:CUT]]), cache=cache)
    if fault is not None:
        cache = fault(model, cache, history)
    logits = np.array(model(mx.array([[history[CUT]]]), cache=cache)[0, -1], dtype=np.float64)
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


NOTICED: dict[str, set[Fault]] = {
    "table": set(),
    "order-2": {stale, missing, late},
    "lag-5": {stale, missing, doubled, late},
    "counts": {stale, missing, doubled},
    "fading": {stale, missing, doubled, late},
    "position": {stale, missing, doubled, late},
    "position-13": {stale, missing, doubled, late},
    "window-4": {stale, doubled, late},
    "window-6": {stale, doubled},
    "window-16": {stale, doubled, late},
}


@pytest.mark.parametrize("name", NOTICED)
def test_faults_noticed(name: str, written: Written, full_history: Histories) -> None:
    target = crafted_pair(name).target
    model, _ = load_model(written(target))
    history = full_history(target)
    right = next_law(model, history, None)
    faults = (stale, doubled, late) if target.window else (stale, missing, doubled, late)
    changed = {fault: float(np.abs(next_law(model, history, fault) - right).sum() / 2) for fault in faults}
    for fault, distance in changed.items():
        if fault in NOTICED[name]:
            assert distance > 5e-3, f"{fault.__name__} moves the law by {distance}"
        else:
            assert distance < 1e-6, f"{fault.__name__} moves the law by {distance}"
