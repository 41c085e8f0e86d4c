"""A verification of a recurrent target, taken back to each number of rows: what the recurrences alone cost again."""

from __future__ import annotations

import mlx.core as mx
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eredu.checkpoints.names import shipped_path
from eredu.engine.checkpoint import load_checkpoint
from eredu.mlx.caches.sequence import SequenceCache

LENGTH, ROWS = 16, 5


@pytest.mark.parametrize("kept", [0, 2, 4, ROWS])
def test_verify_and_roll_back(benchmark: BenchmarkFixture, kept: int) -> None:
    """Rows 0 are a reference to the state before, all rows no rollback at all; what lies between runs recurrences."""
    target = load_checkpoint(shipped_path("tiny-qwen3.5"), tokenizer=None, dtype="float32", with_heads=False)
    prompt, block = mx.arange(LENGTH, dtype=mx.uint32), mx.arange(ROWS, dtype=mx.uint32)

    def begin() -> tuple[tuple[SequenceCache], dict[str, int]]:
        cache = SequenceCache(target.model, recurrences=target.recurrences)
        cache.prefill(target.model, prompt.tolist())  # type: ignore[arg-type]
        mx.eval(*cache.arrays())
        return (cache,), {}

    def verify(cache: SequenceCache) -> SequenceCache:
        mx.eval(cache.feed(target.model, block))
        if kept < ROWS:
            cache.rollback(LENGTH + kept)
        mx.eval(*cache.arrays())
        return cache

    cache = benchmark.pedantic(verify, setup=begin, rounds=8, warmup_rounds=1)  # type: ignore[no-untyped-call]
    assert cache.length == LENGTH + kept
