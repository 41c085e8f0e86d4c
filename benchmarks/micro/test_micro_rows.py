"""Processing a block's rows, and drawing from them."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eredu.contract.options import SamplingOptions
from eredu.mlx.draws import draw, key_rows
from eredu.mlx.history import HistoryRows
from eredu.mlx.rows import process_rows

RowMaker = Callable[[int, int], mx.array]
VOCABULARY = 49152
SETTINGS = {
    "greedy": SamplingOptions(),
    "temperature": SamplingOptions(temperature=0.7),
    "top-k": SamplingOptions(temperature=0.7, top_k=40),
    "top-p": SamplingOptions(temperature=0.7, top_p=0.9),
    "min-p": SamplingOptions(temperature=0.7, min_p=0.05),
    "penalties": SamplingOptions(temperature=0.7, repetition_penalty=1.1, frequency_penalty=0.2),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("rows", [1, 5])
def test_row_processing(benchmark: BenchmarkFixture, make_rows: RowMaker, name: str, rows: int) -> None:
    """Each step of the processed distribution, for one row and for a block."""
    options, logits = SETTINGS[name], make_rows(rows, VOCABULARY)
    pending = mx.arange(rows - 1, dtype=mx.uint32)

    def process() -> mx.array:
        history = None
        if options.has_penalties:
            history = HistoryRows(range(64), range(64), pending, range(rows), VOCABULARY)
        scores = process_rows(logits, options, history=history)
        mx.eval(scores)
        return scores

    assert benchmark(process).shape == (rows, VOCABULARY)


@pytest.mark.parametrize("rows", [1, 5])
def test_row_sampling(benchmark: BenchmarkFixture, make_rows: RowMaker, rows: int) -> None:
    """Gumbel-max draws, keys and noise included."""
    scores = make_rows(rows, VOCABULARY)
    keys = key_rows([(7, at) for at in range(rows)])

    def sample() -> mx.array:
        tokens = draw(scores, keys)
        mx.eval(tokens)
        return tokens

    assert benchmark(sample).shape == (rows,)
