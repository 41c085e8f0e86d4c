"""The gated delta rule over rows on CUDA, by one kernel that is the same for one row and for several.

mlx-lm has such a kernel for Metal; elsewhere it takes some ten operations a row, which made the recurrence the dearest
part of a verification (see `benchmarks/README.md`). Here a warp holds one row of a head's state (value entry by keys)
and walks through the rows in order, so what it computes for a row does not depend on how many come with it: verified
rows are decoded rows, bit for bit. It also leaves the state behind each row, which a rollback then picks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

import mlx.core as mx

from eredu.mlx.placement import on_cuda

LANES = 32
"""The size of a key head must be a multiple of it."""

WARPS = 4
"""The size of a value head must be a multiple of it."""

_SOURCE = """
  constexpr int EACH = K / 32;              // entries of a state's row that one lane holds
  const int lane = threadIdx.x % 32, entry = blockIdx.x * WARPS + threadIdx.x / 32;
  const int head = blockIdx.y, shared = head / G, rows = q_shape[1];

  float held[EACH], keys[EACH];
  const float* from = state + head * state_strides[1] + entry * state_strides[2];
  for (int e = 0; e < EACH; ++e) held[e] = from[(lane + 32 * e) * state_strides[3]];

  for (int row = 0; row < rows; ++row) {
    const auto key = k + row * k_strides[1] + shared * k_strides[2];
    const auto query = q + row * q_strides[1] + shared * q_strides[2];
    const float kept = decay[row * decay_strides[1] + head * decay_strides[2]];
    const float gain = static_cast<float>(beta[row * beta_strides[1] + head * beta_strides[2]]);
    const float value = static_cast<float>(v[row * v_strides[1] + head * v_strides[2] + entry * v_strides[3]]);

    float known = 0.0f;
    for (int e = 0; e < EACH; ++e) {
      keys[e] = static_cast<float>(key[(lane + 32 * e) * k_strides[3]]);
      held[e] *= kept;
      known += held[e] * keys[e];
    }
    for (int step = 16; step > 0; step /= 2) known += __shfl_xor_sync(0xffffffffu, known, step);

    const float change = (value - known) * gain;
    float sum = 0.0f;
    for (int e = 0; e < EACH; ++e) {
      held[e] += keys[e] * change;
      sum += held[e] * static_cast<float>(query[(lane + 32 * e) * q_strides[3]]);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) out[((long)row * gridDim.y + head) * V + entry] = static_cast<T>(sum);

    const bool noted = every[0] != 0;
    if (noted || row == rows - 1) {
      float* to = states + (((long)(noted ? row : 0) * gridDim.y + head) * V + entry) * K;
      for (int e = 0; e < EACH; ++e) to[lane + 32 * e] = held[e];
    }
  }
"""


def kernel_takes(q: mx.array, v: mx.array, state: mx.array | None) -> bool:
    """Whether the kernel is made for these shapes, on the device that operations go to now."""
    fits = q.shape[-1] % LANES == 0 and v.shape[-1] % WARPS == 0 and v.shape[2] % q.shape[2] == 0
    return on_cuda() and fits and q.shape[0] == 1 and (state is None or state.dtype == mx.float32)


def run_gated_delta(
    q: mx.array, k: mx.array, v: mx.array, decay: mx.array, beta: mx.array, state: mx.array, *, every: bool
) -> tuple[mx.array, mx.array]:
    """Run the gated delta rule over rows (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2025).

    Args:
        q: Shape (1, rows, key_heads, key_size), normalized and scaled.
        k: As `q`.
        v: Shape (1, rows, value_heads, value_size).
        decay: Shape (1, rows, value_heads), float32: what of the state is kept.
        beta: Shape (1, rows, value_heads): the strength of a write.
        state: Shape (1, value_heads, value_size, key_size), float32.
        every: Whether the state behind each row is wanted, or the last one alone.

    Returns:
        Outputs of shape (1, rows, value_heads, value_size) in q's dtype, and states of shape (rows or 1, value_heads,
        value_size, key_size), float32.
    """
    rows, heads, size, width = q.shape[1], v.shape[2], v.shape[3], q.shape[3]
    out, states = _kernel()(
        inputs=[q, k, v, decay, beta, state, _flag(every)],
        template=[("T", q.dtype), ("K", width), ("V", size), ("G", heads // q.shape[2]), ("WARPS", WARPS)],
        grid=(size * LANES, heads, 1),
        threadgroup=(LANES * WARPS, 1, 1),
        output_shapes=[(1, rows, heads, size), (rows if every else 1, heads, size, width)],
        output_dtypes=[q.dtype, mx.float32],
    )
    return out, states


@cache
def _kernel() -> Callable[..., list[mx.array]]:
    made = mx.fast.cuda_kernel(
        name="eredu_gated_delta",
        input_names=["q", "k", "v", "decay", "beta", "state", "every"],
        output_names=["out", "states"],
        source=_SOURCE,
        ensure_row_contiguous=False,
    )
    return cast("Callable[..., list[mx.array]]", made)


@cache
def _flag(value: bool) -> mx.array:  # noqa: FBT001
    """The flag as an array: every layer of a step reads the same one."""
    flag = mx.array([value], dtype=mx.int32)
    mx.eval(flag)
    return flag
