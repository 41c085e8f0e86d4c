"""Gated delta layers lent their rows: the same bits, a state behind every row, and mlx-lm's own function outside."""

from __future__ import annotations

import sys
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import gated_delta, qwen3_5, qwen3_next

from eredu.mlx.gated_rows import lend_gated_delta

MIXERS = (qwen3_5.GatedDeltaNet, qwen3_next.Qwen3NextGatedDeltaNet)
ROWS, KEYS, VALUES, WIDTH = 5, 2, 4, 8


@pytest.fixture
def inputs() -> dict[str, Any]:
    """What one layer gives its recurrence, for `ROWS` rows."""
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> mx.array:
        return mx.array(rng.normal(size=shape).astype(np.float32))

    return {
        "q": drawn(1, ROWS, KEYS, WIDTH),
        "k": drawn(1, ROWS, KEYS, WIDTH),
        "v": drawn(1, ROWS, VALUES, WIDTH),
        "a": drawn(1, ROWS, VALUES),
        "b": drawn(1, ROWS, VALUES),
        "A_log": drawn(VALUES),
        "dt_bias": drawn(VALUES),
        "state": drawn(1, VALUES, WIDTH, WIDTH),
    }


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer.__name__)
def test_rows_and_states_are_those_of_single_steps(mixer: type[Any], inputs: dict[str, Any]) -> None:
    noting = lend_gated_delta(mixer)
    lent = sys.modules[mixer.__module__].gated_delta_update
    noted: list[mx.array] = []
    with noting(noted.extend):
        outputs, last = lent(*inputs.values())
    state, each = inputs["state"], []
    for row in range(ROWS):
        one = {name: inputs[name][:, row : row + 1] for name in "qkvab"}
        output, state = gated_delta.gated_delta_update(
            **one, **{n: inputs[n] for n in ("A_log", "dt_bias")}, state=state
        )
        each.append(np.array(output))
        np.testing.assert_allclose(np.array(noted[row]), np.array(state), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.array(outputs), np.concatenate(each, axis=1), rtol=1e-6, atol=1e-6)
    assert len(noted) == ROWS
    assert last is noted[-1]


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: mixer.__name__)
def test_outside_of_the_context_nothing_is_noted(mixer: type[Any], inputs: dict[str, Any]) -> None:
    noting = lend_gated_delta(mixer)
    lent = sys.modules[mixer.__module__].gated_delta_update
    noted: list[mx.array] = []
    with noting(noted.extend):
        pass
    outputs, state = lent(*inputs.values())
    expected, behind = gated_delta.gated_delta_update(*inputs.values())
    assert not noted
    np.testing.assert_array_equal(np.array(outputs), np.array(expected))
    np.testing.assert_array_equal(np.array(state), np.array(behind))


def test_lending_twice_lends_once() -> None:
    lend_gated_delta(MIXERS[0])
    lent = sys.modules[MIXERS[0].__module__].gated_delta_update
    lend_gated_delta(MIXERS[0])
    assert sys.modules[MIXERS[0].__module__].gated_delta_update is lent
