"""The gated delta rule of Qwen3-Next and Qwen3.5, run again for a rollback."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from eredu.families.recurrence import MixerRecurrence
from eredu.mlx.adapter import normalize_qk
from eredu.mlx.gated_rows import run_gated_rows
from eredu.mlx.taps import Recording


class GatedDeltaRecurrence(MixerRecurrence):
    """Gated delta rule (Yang et al. 2024, arXiv 2412.06464), as in Qwen3-Next and Qwen3.5."""

    def __init__(self, mixer: Any, name: str) -> None:
        joint = hasattr(mixer, "in_proj_ba")
        super().__init__(mixer, name, *(("in_proj_ba",) if joint else ("in_proj_a", "in_proj_b")))

    def run(self, state: mx.array | None, mixed: mx.array, record: Recording, rows: int) -> mx.array | None:
        """The last state of the gated delta rule."""
        mixer = self.mixer
        q, k, v = mx.split(mixed, [mixer.key_dim, 2 * mixer.key_dim], axis=-1)
        q = q.reshape(1, rows, mixer.num_k_heads, mixer.head_k_dim)
        k = k.reshape(1, rows, mixer.num_k_heads, mixer.head_k_dim)
        v = v.reshape(1, rows, mixer.num_v_heads, mixer.head_v_dim)
        q, k = normalize_qk(q, k, inv_scale=mixer.head_k_dim**-0.5, eps=1e-6)
        b, a = self._gates(record, rows)
        _, states = run_gated_rows(q, k, v, a, b, mixer.A_log, mixer.dt_bias, state)
        return states[-1]

    def _gates(self, record: Recording, rows: int) -> tuple[mx.array, mx.array]:
        """Inputs of the write gate and of the decay, each of shape (1, rows, value heads)."""
        joint = record.outputs.get(f"{self.name}.in_proj_ba")
        if joint is None:
            return (
                record.outputs[f"{self.name}.in_proj_b"][:, :rows],
                record.outputs[f"{self.name}.in_proj_a"][:, :rows],
            )
        heads = self.mixer.num_k_heads
        grouped = joint[:, :rows].reshape(1, rows, heads, -1)
        b, a = mx.split(grouped, [self.mixer.num_v_heads // heads], axis=-1)
        return b.reshape(1, rows, -1), a.reshape(1, rows, -1)


RECURRENCES = dict.fromkeys(("qwen3_5.GatedDeltaNet", "qwen3_next.Qwen3NextGatedDeltaNet"), GatedDeltaRecurrence)
"""By the class of the mixer in `mlx_lm.models`."""
