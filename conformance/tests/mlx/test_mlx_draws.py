"""Words, coins, Gumbel vectors and draws of the device against the spec's integers and float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

import eredu.mlx.draws as module
from eredu.contract.randomness import RequestRandomness, Role, Words
from eredu.mlx.draws import coins, draw, gumbels, key_rows, words
from eredu_spec import randomness as spec

WORD = st.integers(0, 2**32 - 1)
KEYS = st.lists(st.tuples(WORD, WORD), min_size=1, max_size=5)
SIZES = st.sampled_from([1, 2, 3, 5, 16, 33, 64, 101])
BELOW_ONE = 1 - 2.0**-24


def uniforms(drawn: Sequence[int]) -> NDArray[np.float64]:
    return np.minimum((np.array(drawn, dtype=np.float64) + 0.5) * 2.0**-32, BELOW_ONE)


def assert_gumbels(noise: NDArray[np.float32], drawn: Sequence[int]) -> None:
    """Within the rounding of the uniform in float32, which shows near 1 only, where the noise is least."""
    uniform = uniforms(drawn)
    exact = -np.log(-np.log1p(-uniform))
    rounding = 2.0**-24 / (1 - uniform) / np.maximum(-np.log1p(-uniform), 1.0)
    assert (np.abs(noise - exact) <= 2e-6 * np.maximum(1, np.abs(exact)) + rounding).all()


def script_words(monkeypatch: pytest.MonkeyPatch, scripted: list[list[int]]) -> None:
    monkeypatch.setattr(module, "words", lambda keys, count: mx.array(scripted, dtype=mx.uint32)[:, :count])


# rule: randomness.generator
@given(KEYS, SIZES)
def test_words_are_the_specs(keys: list[Words], count: int) -> None:
    drawn = words(key_rows(keys), count)
    assert drawn.dtype == mx.uint32
    assert [tuple(row) for row in np.array(drawn).tolist()] == [spec.words(key, count) for key in keys]


# rule: randomness.coin-exact
@given(KEYS)
def test_coins_are_the_specs_exactly(keys: list[Words]) -> None:
    drawn = np.array(coins(key_rows(keys)), dtype=np.float64)
    assert drawn.tolist() == [float(spec.coin(key)) for key in keys]


# rule: randomness.coin-exact
@pytest.mark.parametrize(
    ("word", "coin"),
    [(0, 0.0), (255, 0.0), (256, 2.0**-24), (2**31, 0.5), (2**32 - 1, BELOW_ONE), (2**32 - 256, BELOW_ONE)],
)
def test_extreme_words_stay_on_the_grid_below_one(monkeypatch: pytest.MonkeyPatch, word: int, coin: float) -> None:
    script_words(monkeypatch, [[word, 7]])
    assert coins(mx.zeros((1, 2), dtype=mx.uint32)).item() == coin


@given(KEYS, SIZES)
def test_gumbels_agree_with_float64(keys: list[Words], size: int) -> None:
    noise = np.array(gumbels(key_rows(keys), size))
    for row, key in zip(noise, keys, strict=True):
        assert_gumbels(row, spec.words(key, size))


def test_gumbels_of_extreme_words_are_finite_and_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = [0, 1, 2**8, 2**24 - 1, 2**24, 2**31, 2**32 - 257, 2**32 - 128, 2**32 - 1]
    script_words(monkeypatch, [scripted])
    noise = np.array(gumbels(mx.zeros((1, 2), dtype=mx.uint32), len(scripted))[0])
    assert_gumbels(noise, scripted)
    assert np.isfinite(noise).all()
    assert (np.diff(noise) <= 0).all()
    assert noise[0] > 22.8


# rule: randomness.stateless, scheduling.requests-independent
@pytest.mark.parametrize("size", [7, 64, 1000, 4097])
def test_a_row_does_not_depend_on_the_rows_beside_it(size: int) -> None:
    keys = [(row * 77, row + 5) for row in range(9)]
    together = np.array(gumbels(key_rows(keys), size))
    for row, key in enumerate(keys):
        alone = np.array(gumbels(key_rows([key]), size))[0]
        assert together[row].tobytes() == alone.tobytes()
    logits = mx.random.normal((9, size), key=mx.random.key(3))
    drawn = draw(logits, key_rows(keys)).tolist()
    assert drawn == [draw(logits[row : row + 1], key_rows([key])).item() for row, key in enumerate(keys)]


# rule: randomness.gumbel-max
def test_ties_go_to_the_lowest_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "words", lambda keys, count: mx.zeros((keys.shape[0], count), dtype=mx.uint32))
    for size in (3, 16, 33, 1000):
        scores = mx.concatenate([mx.full((1, 1), -1.0), mx.full((1, size - 1), 2.0)], axis=1)
        assert draw(scores, mx.zeros((1, 2), dtype=mx.uint32)).item() == 1


# rule: randomness.gumbel-max
def test_an_excluded_id_is_never_drawn() -> None:
    keys = key_rows([(1, number) for number in range(3000)])
    row = np.full(6, -np.inf, dtype=np.float32)
    row[[1, 4]] = [0.0, -9.0]
    drawn = np.array(draw(mx.broadcast_to(mx.array(row), (3000, 6)), keys))
    assert set(drawn.tolist()) <= {1, 4}


# rule: randomness.gumbel-max
def test_draws_follow_the_exact_law() -> None:
    """G-test, degrees of freedom 7, n = 200 000, false-fail rate 1e-6.

    A total variation distance of 0.6 % spread over the ids gives a noncentrality of at least 4 n TV² / 1 = 28.8 in the
    worst case for 2 x KL; power at 0.6 % is about one half, and above 0.99 at 1.1 %. The seed is fixed.
    """
    logits = np.array([0.0, -0.5, -1.0, -2.0, 1.5, -np.inf, -3.0, 0.7, -1.5], dtype=np.float32)
    count = 200_000
    root = RequestRandomness.from_seed(20_261_130)
    keys = mx.random.split(mx.array(root.key(Role.TARGET, 0), dtype=mx.uint32), count)
    drawn = np.concatenate(
        [
            np.array(draw(mx.broadcast_to(mx.array(logits), (20_000, logits.size)), keys[start : start + 20_000]))
            for start in range(0, count, 20_000)
        ]
    )
    law = np.exp(logits.astype(np.float64))
    law /= law.sum()
    observed = np.bincount(drawn, minlength=logits.size).astype(np.float64)
    assert observed[5] == 0
    seen: Any = observed > 0
    statistic = 2 * float((observed[seen] * np.log(observed[seen] / (count * law[seen]))).sum())
    assert statistic < chi2.isf(1e-6, df=int((law > 0).sum()) - 1)


def test_the_law_test_has_the_power_it_claims() -> None:
    """The same statistic on a law 1.1 % away, at its expectation, is far beyond the threshold."""
    law = np.full(8, 1 / 8)
    shifted = law + 0.011 / 4 * np.array([1, 1, 1, 1, -1, -1, -1, -1])
    expected = 2 * 200_000 * float((shifted * np.log(shifted / law)).sum()) + 7
    assert expected > chi2.isf(1e-6, df=7) + 3 * np.sqrt(2 * (7 + 2 * expected))
