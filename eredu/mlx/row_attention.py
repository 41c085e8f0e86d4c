"""Attention of a few new rows on CUDA, by one kernel that is the same for one row and for several.

MLX's own attention has two costs there that speculation meets at every round: with more than one row cuDNN plans anew
for each new length, and appending to the cache takes two kernels more a layer, which a small model pays for in host
time. This kernel gives each (head, row) a block of its own, so a row's arithmetic does not depend on how many rows
come with it: a verified block sees the attention of single steps, bit for bit. It also appends the new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import mlx.core as mx

MOST_ROWS = 16
"""New rows up to which a block for each row is the better way."""

LONGEST = 16384
"""Cached rows up to which one block a row is enough parallel work."""

LANES = 32
"""A head's size must be a multiple of it."""

_WARPS = 16

_SOURCE = """
  constexpr int EACH = D / 32;              // entries of a head that one lane holds
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int head = blockIdx.x, row = blockIdx.y, shared = head / G;
  const int past = offset[0], visible = past + row + 1;
  const long plane = (long)shared * keys_shape[2] * D;

  float query[EACH], sum[EACH], weight = 0.0f, highest = __int_as_float(0xff800000);  // minus infinity
  const T* mine = q + head * q_strides[1] + row * q_strides[2] + lane * EACH;
  for (int e = 0; e < EACH; ++e) {
    query[e] = SCALE * static_cast<float>(mine[e]);
    sum[e] = 0.0f;
  }
  for (int at = warp; at < visible; at += WARPS) {
    const bool old = at < past;
    const T* key = old ? keys + plane + (long)at * D
                       : new_keys + shared * new_keys_strides[1] + (at - past) * new_keys_strides[2];
    const T* value = old ? values + plane + (long)at * D
                         : new_values + shared * new_values_strides[1] + (at - past) * new_values_strides[2];
    float score = 0.0f;
    for (int e = 0; e < EACH; ++e) score += query[e] * static_cast<float>(key[lane * EACH + e]);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    const float above = fmaxf(highest, score);
    const float keep = exp2f(highest - above), gain = exp2f(score - above);
    highest = above;
    weight = weight * keep + gain;
    for (int e = 0; e < EACH; ++e) sum[e] = sum[e] * keep + gain * static_cast<float>(value[lane * EACH + e]);
  }

  // What the warps found becomes one row, each warp weighed by its own maximum, in the order of the warps.
  __shared__ float tops[WARPS], weights[WARPS], sums[WARPS][D];
  if (lane == 0) {
    tops[warp] = highest;
    weights[warp] = weight;
  }
  for (int e = 0; e < EACH; ++e) sums[warp][lane * EACH + e] = sum[e];
  __syncthreads();
  float top = tops[0];
  for (int other = 1; other < WARPS; ++other) top = fmaxf(top, tops[other]);
  for (int entry = threadIdx.x; entry < D; entry += 32 * WARPS) {
    float total = 0.0f, mass = 0.0f;
    for (int other = 0; other < WARPS; ++other) {
      const float share = exp2f(tops[other] - top);
      mass += weights[other] * share;
      total += sums[other][entry] * share;
    }
    out[((long)row * gridDim.x + head) * D + entry] = static_cast<T>(total / mass);
  }

  // The buffers are written in place: rows from `past` on, which no block of this call reads from them.
  if (head % G == 0) {
    const long place = plane + (long)(past + row) * D;
    for (int entry = threadIdx.x; entry < D; entry += 32 * WARPS) {
      const_cast<T*>(keys)[place + entry] = new_keys[shared * new_keys_strides[1] + row * new_keys_strides[2] + entry];
      const_cast<T*>(values)[place + entry] =
          new_values[shared * new_values_strides[1] + row * new_values_strides[2] + entry];
    }
  }
"""
_LOG2_E = 1.4426950408889634
"""The kernel's exponentials are powers of two."""


# rule: verify.rows-see-prefix, rollback.exact-length
def append_and_attend(
    queries: mx.array,
    new_keys: mx.array,
    new_values: mx.array,
    keys: mx.array,
    values: mx.array,
    past: int,
    scale: float,
) -> mx.array:
    """Append rows to the buffers, in place, and attend causally to all rows so far.

    Args:
        queries: Shape (1, heads, rows, head_dim), head_dim a multiple of 32, the last axis contiguous.
        new_keys: Shape (1, kv_heads, rows, head_dim), likewise.
        new_values: As `new_keys`.
        keys: Contiguous buffer of shape (1, kv_heads, capacity, head_dim) with room for the rows.
        values: As `keys`.
        past: Rows that the buffers hold.
        scale: Factor of the scores.

    Returns:
        Shape (1, heads, rows, head_dim). MLX does not know that the buffers change: what reads them next must depend
        on this result, or come after it was waited for.
    """
    _, heads, rows, size = queries.shape
    kernel = _kernel(scale * _LOG2_E)
    (rows_first,) = kernel(
        inputs=[queries, new_keys, new_values, keys, values, _offset(past)],
        template=[("T", queries.dtype), ("D", size), ("G", heads // keys.shape[1]), ("WARPS", _WARPS)],
        grid=(heads * LANES * _WARPS, rows, 1),
        threadgroup=(LANES * _WARPS, 1, 1),
        output_shapes=[(1, rows, heads, size)],
        output_dtypes=[queries.dtype],
    )
    return rows_first.swapaxes(1, 2)


@lru_cache(maxsize=16)
def _kernel(scale: float) -> Callable[..., list[mx.array]]:
    made = mx.fast.cuda_kernel(
        name="eredu_append_and_attend",
        input_names=["q", "new_keys", "new_values", "keys", "values", "offset"],
        output_names=["out"],
        source=_SOURCE.replace("SCALE", f"{scale!r}f"),
        ensure_row_contiguous=False,
    )
    return cast("Callable[..., list[mx.array]]", made)


@lru_cache(maxsize=1024)
def _offset(past: int) -> mx.array:
    """The number as an array: every layer of a step reads the same one."""
    offset = mx.array([past], dtype=mx.int32)
    mx.eval(offset)
    return offset
