"""The acceptance rules on a block of four proposals over a real vocabulary."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eredu.mlx.acceptance import Verdict, reject, verify_block
from eredu.mlx.draws import draw, key_rows
from eredu.mlx.summary import Summary

RowMaker = Callable[[int, int], mx.array]
VOCABULARY = 49152
COUNT = 4


def _evaluated(decide: Callable[[], Verdict]) -> Verdict:
    verdict = decide()
    mx.eval(verdict.accepted, verdict.token, verdict.sound)
    return verdict


@pytest.mark.parametrize("rule", [reject, verify_block])
def test_ratio_rules(benchmark: BenchmarkFixture, make_rows: RowMaker, rule: Callable[..., Verdict]) -> None:
    """Rejection sampling and block verification, the final draw included."""
    target, draft = make_rows(COUNT + 1, VOCABULARY), make_rows(COUNT, VOCABULARY)
    coins, final = key_rows([(1, at) for at in range(COUNT)]), key_rows([(2, at) for at in range(COUNT + 1)])
    proposals = draw(draft, key_rows([(3, at) for at in range(COUNT)]))
    mx.eval(proposals, coins, final)
    verdict = benchmark(_evaluated, lambda: rule(proposals, draft, target, coin_keys=coins, final_keys=final))
    assert bool(verdict.sound.item())


def test_matching(benchmark: BenchmarkFixture, make_rows: RowMaker) -> None:
    """Token equality, which greedy and coupled decoding use."""
    target = make_rows(COUNT + 1, VOCABULARY)
    proposals = mx.argmax(target[:COUNT], axis=-1)
    mx.eval(proposals)
    outcome = benchmark(lambda: Summary.of_rows(proposals, mx.argmax(target, axis=-1), target).read())
    assert outcome.accepted == COUNT
