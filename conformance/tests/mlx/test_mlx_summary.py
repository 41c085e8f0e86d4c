"""What comes to the host of a verification, against what went into it."""

from __future__ import annotations

import itertools
import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import AcceptanceError
from eredu.contract.executor import VerificationOutcome
from eredu.mlx.acceptance import Verdict
from eredu.mlx.summary import Summary


def ids(*values: int) -> mx.array:
    return mx.array(values, dtype=mx.uint32)


# rule: verify.greedy-argmax, verify.coupled-shared-vector, verify.first-rejection-ends
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.integers(0, 2))
def test_the_common_prefix_is_accepted(pairs: list[tuple[int, int]], last: int) -> None:
    proposals = [proposal for proposal, _ in pairs]
    targets = [target for _, target in pairs] + [last]
    given_proposals = ids(*proposals) if proposals else None
    outcome = Summary.of_rows(given_proposals, ids(*targets), mx.zeros((len(targets), 3))).read()
    wanted = next((index for index, (x, y) in enumerate(pairs) if x != y), len(pairs))
    assert outcome == VerificationOutcome(tuple(proposals), wanted, targets[wanted])


# rule: verify.invalid-is-error
@pytest.mark.parametrize("size", [1, 2, 5, 33, 257])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_wrong_number_anywhere_is_an_error(size: int, value: float) -> None:
    for row, column in itertools.product(range(3), range(size)):
        scores = np.random.default_rng(size).normal(size=(3, size))
        scores[row, column] = value
        rows = mx.array(scores.astype(np.float32))
        summary = Summary.of_rows(ids(0, 0), mx.argmax(rows, axis=-1), rows)
        with pytest.raises(AcceptanceError, match="not those of a correct engine"):
            summary.read()


# rule: verify.invalid-is-error
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_row_without_any_id_is_an_error(row: int) -> None:
    scores = np.zeros((3, 4), dtype=np.float32)
    scores[row] = -math.inf
    with pytest.raises(AcceptanceError):
        Summary.of_rows(ids(0, 0), ids(0, 0, 0), mx.array(scores)).read()


# rule: verify.invalid-is-error
@pytest.mark.parametrize("sound", [True, False])
def test_a_verdict_travels_whole(sound: bool) -> None:
    verdict = Verdict(mx.array(1, dtype=mx.int32), ids(77), mx.array(sound))
    summary = Summary.of_verdict(ids(5, 6, 7), verdict)
    if sound:
        assert summary.read() == VerificationOutcome((5, 6, 7), 1, 77)
        return
    with pytest.raises(AcceptanceError):
        summary.read()
