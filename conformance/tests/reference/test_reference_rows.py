"""The row function, against values worked out by hand and against slow loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eredu_reference import AcceptanceError, ConstraintError, Sampling
from eredu_reference.rows import Row, check_distribution, processed_row


def row(logits: Any, *, history: Any = (), prompt_length: int = 0, mask: Any = None, **settings: Any) -> Row:
    return processed_row(
        np.array(logits, dtype=np.float64),
        history=tuple(history),
        prompt_length=prompt_length,
        sampling=Sampling(**settings),
        mask=None if mask is None else np.array(mask),
    )


def test_plain_row_is_the_softmax() -> None:
    expected = [math.exp(x) / (1 + math.e + math.e**2) for x in (0, 1, 2)]
    assert row([0, 1, 2]) == pytest.approx(expected, abs=1e-15)


def test_temperature_comes_last() -> None:
    """Top-p looks at the distribution at temperature 1: id 1 stays although a hot softmax would spread the mass."""
    logits = np.log([0.6, 0.35, 0.05])
    assert row(logits, top_p=0.9, temperature=10.0)[2] == 0
    assert row(logits, top_p=0.96, temperature=10.0)[2] > 0


def test_greedy_takes_the_lowest_of_equal_maxima() -> None:
    assert row([1, 3, 3, 0], temperature=0.0).tolist() == [0, 1, 0, 0]


def test_greedy_applies_bias_and_mask_first() -> None:
    assert row([1, 3, 3, 0], temperature=0.0, logit_bias={3: 10.0}).argmax() == 3
    assert row([1, 3, 3, 0], temperature=0.0, mask=[1, 0, 0, 1]).argmax() == 0


@pytest.mark.parametrize(
    ("top_k", "kept"), [(0, [0, 1, 2, 3]), (1, [1, 2]), (2, [1, 2]), (3, [0, 1, 2]), (9, [0, 1, 2, 3])]
)
def test_top_k_keeps_ties(top_k: Any, kept: Any) -> None:
    assert np.nonzero(row([1, 3, 3, 0], top_k=top_k))[0].tolist() == kept


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, [0, 1]), (0.5, [0, 1]), (0.8, [0, 1]), (0.81, [0, 1, 2, 3])])
def test_top_p_keeps_ties(top_p: Any, kept: Any) -> None:
    """Ids 0 and 1 share the largest probability, 2 and 3 the next: a tie goes or stays as one."""
    assert np.nonzero(row(np.log([0.4, 0.4, 0.1, 0.1]), top_p=top_p))[0].tolist() == kept


def test_min_p_is_relative_to_the_largest() -> None:
    assert np.nonzero(row(np.log([0.5, 0.3, 0.15, 0.05]), min_p=0.3))[0].tolist() == [0, 1, 2]


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    expected = np.exp([2 / 2, -1 * 2, 1])
    seen = row([2, -1, 1], history=(0, 1), prompt_length=2, repetition_penalty=2.0)
    assert seen == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize(("last", "penalised"), [(1, {1}), (2, {1}), (3, {0, 1}), (0, {0, 1, 2})])
def test_repetition_window_counts_prompt_and_output(last: Any, penalised: Any) -> None:
    seen = row([1, 1, 1, 1], history=(2, 0, 1, 1), prompt_length=2, repetition_penalty=4.0, repeat_last_n=last)
    assert {token for token in range(4) if seen[token] < seen[3]} == penalised


def test_frequency_and_presence_count_the_output_only() -> None:
    settings = {"frequency_penalty": 0.5, "presence_penalty": 0.25}
    expected = np.exp([0, -0.5 * 2 - 0.25, -0.75])
    assert row([0, 0, 0], history=(0, 1, 1, 2), prompt_length=1, **settings) == pytest.approx(expected / expected.sum())


def test_refuses_nan_and_rows_without_any_id() -> None:
    with pytest.raises(AcceptanceError, match="NaN"):
        row([0.0, math.nan])
    with pytest.raises(ConstraintError, match="no id is left"):
        row([0.0, 1.0], mask=[0, 0])
    with pytest.raises(AcceptanceError, match="sums to"):
        check_distribution(np.array([0.5, 0.4]), name="test")
