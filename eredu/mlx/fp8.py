"""Eight-bit floats with scales, as the numbers they stand for: decoded, multiplied in float32, and rounded once."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from eredu.checkpoints.fp8 import ScaledWeight
from eredu.checkpoints.quantisation import Quantisation


def dequantised(
    arrays: Mapping[str, mx.array], quantisation: Quantisation | None, dtype: mx.Dtype
) -> dict[str, mx.array]:
    """Arrays by stored name: bytes with scales in `dtype`, the scales themselves gone, the rest as it is.

    Lazy as its inputs are, so that no more of a checkpoint is in memory than its user asks for. Doing it again changes
    nothing.
    """
    if quantisation is None or not quantisation.scaled:
        return dict(arrays)
    due = {each.weight: each for each in quantisation.scaled}
    return {
        name: _product(array, arrays[due[name].scale], due[name]).astype(dtype)
        if name in due and array.dtype == mx.uint8
        else array
        for name, array in arrays.items()
        if not quantisation.is_aside(name)
    }


def _product(stored: mx.array, scale: mx.array, each: ScaledWeight) -> mx.array:
    """Decoded bytes times their scales in float32, of the shape of `stored`."""
    values = mx.from_fp8(stored, dtype=mx.float32)
    scales = _powers(scale) if each.exponents else scale.astype(mx.float32)
    if stored.ndim < 2:
        return values * scales.reshape(-1)
    *stack, rows, columns = stored.shape
    height, width = each.block
    scales = scales.reshape(*stack, -(-rows // height), -(-columns // width))
    if height not in {1, rows}:
        scales = mx.repeat(scales, height, axis=-2)[..., :rows, :]
    if width not in {1, columns}:
        scales = mx.repeat(scales, width, axis=-1)[..., :columns]
    return values * scales


def _powers(exponents: mx.array) -> mx.array:
    """2^(e - 127) exactly, of bytes; 255 is NaN. Source: OCP Microscaling Formats, version 1.0, section 5.4.1."""
    bits = exponents.astype(mx.uint32)
    words = mx.where(bits == 0, mx.array(0x00400000, mx.uint32), bits << 23)
    return mx.where(bits == 255, mx.array(float("nan")), words.view(mx.float32))
