"""Shared by the micro-benchmarks: a fixed key stream, so that every run times the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import pytest

RowMaker = Callable[[int, int], mx.array]


@pytest.fixture
def make_rows() -> RowMaker:
    """Makes evaluated rows of logits, shape (rows, vocabulary), float32."""

    def make(rows: int, vocabulary: int) -> mx.array:
        logits = 3 * mx.random.normal((rows, vocabulary), key=mx.random.key(rows))
        mx.eval(logits)
        return logits

    return make
