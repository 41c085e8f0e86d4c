"""The stated law is what mlx-lm computes, for every checkpoint, every prefix and every way of feeding the tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from eredu_conformance.crafted import CraftedCheckpoint, crafted_checkpoints
from eredu_conformance.crafted.architecture import Tensor

Written = Callable[[CraftedCheckpoint], Path]
Histories = Callable[[CraftedCheckpoint], tuple[int, ...]]

TOTAL_VARIATION_MAX = 5e-6
"""Measured: at most 1e-6 (a law of all rows, weighted), 7e-8 for tables; see conformance/README.md."""

LOGIT_ERROR_MAX = 1e-5
"""Largest error of a possible token's logit; logits reach 20."""


def distributions(logits: Any) -> Tensor:
    rows = np.array(logits[0].astype(mx.float32), dtype=np.float64)
    weights = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def fed(model: Any, history: Sequence[int], chunks: Sequence[int]) -> Tensor:
    """Distribution after every prefix when the history is fed in chunks of these sizes, in turn."""
    cache, rows, start, turn = make_prompt_cache(model), [], 0, 0
    while start < len(history):
        size = chunks[turn % len(chunks)]
        rows.append(distributions(model(mx.array([history[start : start + size]]), cache=cache)))
        start, turn = start + size, turn + 1
    return np.concatenate(rows)


@pytest.mark.parametrize("checkpoint", crafted_checkpoints(), ids=lambda c: c.name)
def test_law_is_mlx_lms(checkpoint: CraftedCheckpoint, written: Written, full_history: Histories) -> None:
    model, _ = load_model(written(checkpoint))
    history = full_history(checkpoint)
    first = checkpoint.history_min
    law = np.stack([checkpoint.next_distribution(history[:n]) for n in range(first, len(history) + 1)])

    def distance(rows: Tensor) -> float:
        return float(np.abs(rows[first - 1 :] - law).sum(axis=-1).max() / 2)

    logits = model(mx.array([history]))
    assert distance(distributions(logits)) < TOTAL_VARIATION_MAX, "whole history, no cache"
    for chunks in ([1], [5], [3, 1, 1, 7]):
        assert distance(fed(model, history, chunks)) < TOTAL_VARIATION_MAX, f"chunks {chunks}"
    for n in (first, first + 1, len(history)):
        alone = distributions(model(mx.array([history[:n]])))[-1]
        assert np.abs(alone - law[n - first]).sum() / 2 < TOTAL_VARIATION_MAX, f"prefix of {n}"

    raw = np.array(logits[0], dtype=np.float64)[first - 1 :]
    stated = np.stack([checkpoint.next_logits(history[:n]) for n in range(first, len(history) + 1)])
    possible = law > 0
    assert np.abs(raw - stated)[possible].max() < LOGIT_ERROR_MAX
    assert np.all(distributions(logits)[first - 1 :][~possible] == 0), "an impossible token is possible"
