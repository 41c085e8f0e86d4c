"""The gated delta kernel against mlx-lm's operations; it runs where MLX was built for CUDA."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.gated_delta import gated_delta_ops

from eredu.mlx.gated_kernel import kernel_takes, run_gated_delta

KEY_HEADS, VALUE_HEADS, KEY_SIZE, VALUE_SIZE = 2, 6, 64, 20
ON_CUDA = mx.default_device().type == mx.DeviceType.gpu and not mx.metal.is_available()
needs_cuda = pytest.mark.skipif(not ON_CUDA, reason="the kernel is CUDA's; elsewhere mlx-lm's own recurrence runs")


def drawn(rows: int, dtype: mx.Dtype = mx.float32, *, seed: int = 1) -> dict[str, mx.array]:
    """Inputs of a recurrence, as strided as layers give them."""
    rng = np.random.default_rng(seed)
    mixed = mx.array(rng.normal(size=(1, rows, 2 * KEY_HEADS * KEY_SIZE + VALUE_HEADS * VALUE_SIZE))).astype(dtype)
    q, k, v = mx.split(mixed, [KEY_HEADS * KEY_SIZE, 2 * KEY_HEADS * KEY_SIZE], axis=-1)
    gates = mx.array(rng.uniform(size=(1, rows, 2 * VALUE_HEADS)).astype(np.float32))
    return {
        "q": q.reshape(1, rows, KEY_HEADS, KEY_SIZE) / 8,
        "k": k.reshape(1, rows, KEY_HEADS, KEY_SIZE) / 8,
        "v": v.reshape(1, rows, VALUE_HEADS, VALUE_SIZE),
        "decay": gates[..., :VALUE_HEADS],
        "beta": gates[..., VALUE_HEADS:].astype(dtype),
        "state": mx.array(rng.normal(size=(1, VALUE_HEADS, VALUE_SIZE, KEY_SIZE)).astype(np.float32)),
    }


def first(inputs: dict[str, mx.array], rows: int) -> dict[str, mx.array]:
    """The same inputs, cut behind some rows."""
    return {name: array if name == "state" else array[:, :rows] for name, array in inputs.items()}


@needs_cuda
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_outputs_and_states_are_those_of_the_operations(rows: int, dtype: mx.Dtype) -> None:
    inputs = drawn(rows, dtype)
    outputs, states = run_gated_delta(**inputs, every=True)
    assert (outputs.dtype, states.dtype) == (dtype, mx.float32)
    off = 1e-4 if dtype == mx.float32 else 2e-2
    for row in range(rows):
        wanted, state = gated_delta_ops(*(array for array in first(inputs, row + 1).values()))
        found = np.array(outputs[:, row].astype(mx.float32))
        np.testing.assert_allclose(found, np.array(wanted[:, row].astype(mx.float32)), rtol=off, atol=off)
        np.testing.assert_allclose(np.array(states[row]), np.array(state[0]), rtol=off, atol=off)


@needs_cuda
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_rows_together_are_rows_one_by_one_bit_for_bit(dtype: mx.Dtype) -> None:
    inputs = drawn(5, dtype)
    outputs, states = run_gated_delta(**inputs, every=True)
    state = inputs["state"]
    for row in range(5):
        one = {name: array[:, row : row + 1] for name, array in inputs.items() if name != "state"}
        output, state = run_gated_delta(**one, state=state, every=False)
        np.testing.assert_array_equal(
            np.array(output.astype(mx.float32)), np.array(outputs[:, row : row + 1].astype(mx.float32))
        )
        np.testing.assert_array_equal(np.array(state), np.array(states[row : row + 1]))
    _, last = run_gated_delta(**inputs, every=False)
    np.testing.assert_array_equal(np.array(last), np.array(states[-1:]))


def test_what_the_kernel_is_not_made_for_it_does_not_take() -> None:
    q, v = mx.zeros((1, 2, 2, 64)), mx.zeros((1, 2, 4, 8))
    assert kernel_takes(q, v, None) == ON_CUDA
    assert not kernel_takes(mx.zeros((1, 2, 2, 48)), v, None)
    assert not kernel_takes(q, mx.zeros((1, 2, 4, 6)), None)
    assert not kernel_takes(q, mx.zeros((1, 2, 3, 8)), None)
    assert not kernel_takes(mx.zeros((2, 2, 2, 64)), mx.zeros((2, 2, 4, 8)), None)
    assert not kernel_takes(q, v, mx.zeros((1, 4, 8, 64), dtype=mx.bfloat16))
