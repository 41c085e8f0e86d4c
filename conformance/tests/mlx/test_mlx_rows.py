"""The processed rows of the device against a float64 implementation of the contract, for all options at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from eredu.contract.options import SamplingOptions
from eredu.mlx.history import HistoryRows
from eredu.mlx.rows import process_rows
from eredu_reference.requests import Sampling
from eredu_reference.rows import processed_row

VOCABULARY = 12
Row = NDArray[np.float64]

QUARTERS = st.integers(-24, 24).map(lambda value: value / 4)
"""Logits on a grid: ties happen, and float32 holds them exactly."""


@dataclass(frozen=True)
class Case:
    options: SamplingOptions
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    pending: tuple[int, ...]
    logits: Row
    mask: NDArray[np.bool_] | None

    @property
    def rows(self) -> int:
        return len(self.pending) + 1


IDS = st.integers(0, VOCABULARY - 1)
OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.sampled_from([0.0, 1e-3, 0.3, 0.7, 1.0, 1.9, 50.0]),
    top_k=st.sampled_from([0, 0, 1, 2, 3, 7, VOCABULARY, VOCABULARY + 5]),
    top_p=st.sampled_from([1.0, 1.0, 0.999, 0.9, 0.5, 0.1, 1e-6]),
    min_p=st.sampled_from([0.0, 0.0, 0.01, 0.2, 0.9, 1.0]),
    logit_bias=st.dictionaries(IDS, st.sampled_from([-100.0, -1.5, 0.25, 3.0]), max_size=3),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.25, 2.0, 0.5]),
    repeat_last_n=st.sampled_from([0, 1, 2, 3, 5, 64]),
    frequency_penalty=st.sampled_from([0.0, 0.5, -0.25, 2.0]),
    presence_penalty=st.sampled_from([0.0, 0.75, -1.0]),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pending = tuple(draw(st.lists(IDS, max_size=4)))
    rows = len(pending) + 1
    cells = draw(st.lists(QUARTERS, min_size=rows * VOCABULARY, max_size=rows * VOCABULARY))
    logits = np.array(cells).reshape(rows, VOCABULARY)
    banned = draw(st.lists(st.integers(0, rows * VOCABULARY - 1), max_size=3))
    logits.reshape(-1)[banned] = -np.inf
    mask = None
    if draw(st.booleans()):
        allowed = draw(st.lists(st.booleans(), min_size=rows * VOCABULARY, max_size=rows * VOCABULARY))
        mask = np.array(allowed).reshape(rows, VOCABULARY)
    prompt = tuple(draw(st.lists(IDS, min_size=1, max_size=6)))
    return Case(draw(OPTIONS), prompt, tuple(draw(st.lists(IDS, max_size=6))), pending, logits, mask)


def on_device(case: Case, rows: range | None = None) -> NDArray[np.float32]:
    """Scores of the rows, processed in one call."""
    rows = rows or range(case.rows)
    pending = mx.array(case.pending, dtype=mx.uint32) if case.pending else None
    history = HistoryRows(case.prompt, case.output, pending, rows, VOCABULARY)
    mask = None if case.mask is None else mx.array(case.mask[rows.start : rows.stop])
    logits = mx.array(case.logits[rows.start : rows.stop].astype(np.float32))
    return np.array(process_rows(logits, case.options, mask=mask, history=history))


def probabilities(scores: NDArray[np.float32], options: SamplingOptions) -> Row:
    if options.is_greedy:
        row = np.zeros(len(scores))
        row[int(np.argmax(scores))] = 1
        return row
    masses = np.exp(scores.astype(np.float64) - scores.max())
    return np.asarray(masses / masses.sum())


def in_float64(case: Case, row: int, **changes: float) -> Row:
    """The reference's distribution of one row; `changes` move the two cuts a hair, to find rows on their edge."""
    options = case.options
    sampling = Sampling(
        logit_bias=dict(options.logit_bias),
        repetition_penalty=options.repetition_penalty,
        repeat_last_n=options.repeat_last_n,
        frequency_penalty=options.frequency_penalty,
        presence_penalty=options.presence_penalty,
        top_k=options.top_k,
        top_p=changes.get("top_p", options.top_p),
        min_p=changes.get("min_p", options.min_p),
        temperature=options.temperature,
    )
    history = (*case.prompt, *case.output, *case.pending[:row])
    mask = None if case.mask is None else case.mask[row]
    return processed_row(
        case.logits[row], history=history, prompt_length=len(case.prompt), sampling=sampling, mask=mask
    )


def is_on_an_edge(case: Case, row: int) -> bool:
    """Whether float32 may cut the row elsewhere: the kept ids change when top_p or min_p moves by 1e-5."""
    base = in_float64(case, row) > 0
    options = case.options
    moved = [
        in_float64(case, row, top_p=min(1.0, options.top_p * factor), min_p=min(1.0, options.min_p * factor)) > 0
        for factor in (1 - 1e-5, 1 + 1e-5)
    ]
    return any((other != base).any() for other in moved)


# rule: verify.processed-order, verify.rows-see-prefix, constraints.mask-on-every-row
@given(cases())
def test_rows_are_the_float64_rows(case: Case) -> None:
    masked = np.where(case.mask, case.logits, -np.inf) if case.mask is not None else case.logits
    assume((masked > -np.inf).any(axis=1).all())
    scores = on_device(case)
    assert scores.dtype == np.float32
    for row in range(case.rows):
        if not is_on_an_edge(case, row):
            np.testing.assert_allclose(
                probabilities(scores[row], case.options), in_float64(case, row), rtol=2e-4, atol=1e-7
            )


# rule: verify.rows-see-prefix
@given(cases())
def test_a_row_of_a_block_is_the_row_alone(case: Case) -> None:
    together = on_device(case)
    for row in range(case.rows):
        assert together[row].tobytes() == on_device(case, range(row, row + 1))[0].tobytes()


@pytest.mark.parametrize("size", [17, 100, 1000])
def test_a_wide_row_of_a_block_is_the_row_alone(size: int) -> None:
    logits = mx.random.normal((5, size), key=mx.random.key(1)) * 3
    for options in (
        SamplingOptions(temperature=0.7, top_k=40, top_p=0.9, min_p=0.01),
        SamplingOptions(temperature=1.0, top_p=0.95),
        SamplingOptions(temperature=1.3, logit_bias={3: 2.0}),
    ):
        together = np.array(process_rows(logits, options))
        for row in range(5):
            assert together[row].tobytes() == np.array(process_rows(logits[row : row + 1], options))[0].tobytes()


def process(row: list[float], **options: float) -> list[float]:
    scores = process_rows(mx.array([row]), SamplingOptions(**options))  # type: ignore[arg-type]
    found: list[float] = scores[0].tolist()  # type: ignore[assignment]
    return found


def kept(row: list[float], **options: float) -> list[int]:
    return [token for token, score in enumerate(process(row, **options)) if score > -math.inf]


@pytest.mark.parametrize(
    ("top_p", "expected"), [(1e-9, [1]), (0.5, [1]), (0.51, [0, 1, 2]), (0.99, [0, 1, 2, 3]), (1.0, [0, 1, 2, 3])]
)
def test_top_p_keeps_the_smallest_head_that_reaches_it_and_its_ties(top_p: float, expected: list[int]) -> None:
    """Masses 0.2, 0.5, 0.2, 0.1: the head of 0.5 is reached by id 1 alone, and ids 0 and 2 are tied."""
    row = np.log([0.2, 0.5, 0.2, 0.1]).astype(np.float32)
    row[1] = np.float32(math.log(0.5)) + np.float32(2e-7)
    assert kept(row.tolist(), temperature=1.0, top_p=top_p) == expected


@pytest.mark.parametrize("temperature", [1e-300, 1e-46, 1e-38, 1e-30, 1e-3])
def test_cold_temperatures_leave_the_maxima(temperature: float) -> None:
    scores = process([3.0, 88.0, 87.0, 88.0], temperature=temperature)
    assert scores[1] == scores[3] == 0.0
    assert scores[0] < -1e3
    assert scores[2] <= -999


def test_a_cold_row_keeps_its_precision() -> None:
    """Two logits 2**-10 apart at 30 and temperature 0.01 are 0.0977 apart, to float32's precision of *that* number."""
    scores = process([30.0, 30.0 - 2.0**-10, 0.0], temperature=0.01)
    assert scores[0] - scores[1] == pytest.approx(2.0**-10 / 0.01, rel=1e-6)


def test_a_row_without_any_id_stays_without() -> None:
    for options in ({}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}):
        scores = process([-math.inf] * 4, temperature=0.0, **options)
        assert all(score == -math.inf for score in scores)
        warm = process([-math.inf] * 4, temperature=1.0, **options)
        assert not any(score > -math.inf for score in warm)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_low_precision_logits_are_widened_first(dtype: mx.Dtype) -> None:
    logits = mx.array([[1.0, 2.5, -3.0]]).astype(dtype)
    scores = process_rows(logits, SamplingOptions(temperature=0.3))
    assert scores.dtype == mx.float32
    np.testing.assert_allclose(np.array(scores), [[-1.5 / 0.3, 0, -5.5 / 0.3]], rtol=1e-6)


def test_penalties_without_a_history_are_an_error() -> None:
    with pytest.raises(ValueError, match="history"):
        process_rows(mx.zeros((1, 3)), SamplingOptions(presence_penalty=1.0))
