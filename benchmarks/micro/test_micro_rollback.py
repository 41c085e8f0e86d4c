"""Feeding a block to a cache and rolling it back, without a model around it."""

from __future__ import annotations

import mlx.core as mx
from pytest_benchmark.fixture import BenchmarkFixture

from eredu.mlx.caches.full import RollbackCache

LAYERS, HEADS, WIDTH, LENGTH, ROWS = 30, 3, 64, 500, 5


def test_append_and_rollback(benchmark: BenchmarkFixture) -> None:
    """All layers of a model of 30, one rejected block."""
    prompt = mx.zeros((1, HEADS, LENGTH, WIDTH))
    block = mx.ones((1, HEADS, ROWS, WIDTH))
    caches = [RollbackCache() for _ in range(LAYERS)]
    for cache in caches:
        cache.update_and_fetch(prompt, prompt)

    def append_and_roll_back() -> None:
        for cache in caches:
            cache.update_and_fetch(block, block)
        mx.eval([cache.keys for cache in caches], [cache.values for cache in caches])
        for cache in caches:
            cache.rollback(LENGTH)

    benchmark(append_and_roll_back)
    assert {cache.offset for cache in caches} == {LENGTH}
