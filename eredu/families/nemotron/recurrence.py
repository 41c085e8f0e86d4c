"""The selective state space of Nemotron-H, run again for a rollback."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from eredu.families.recurrence import MixerRecurrence
from eredu.mlx.adapter import ssm_update
from eredu.mlx.taps import Recording


class Mamba2Recurrence(MixerRecurrence):
    """Selective state space (Dao and Gu 2024, arXiv 2405.21060), as in Nemotron-H."""

    def __init__(self, mixer: Any, name: str) -> None:
        super().__init__(mixer, name, "in_proj")

    def run(self, state: mx.array | None, mixed: mx.array, record: Recording, rows: int) -> mx.array | None:
        """The last state of the state space."""
        mixer = self.mixer
        groups = mixer.n_groups * mixer.ssm_state_size
        x, b, c = mx.split(mixed, [mixer.intermediate_size, mixer.intermediate_size + groups], axis=-1)
        x = x.reshape(1, rows, mixer.num_heads, mixer.head_dim)
        b = b.reshape(1, rows, mixer.n_groups, mixer.ssm_state_size)
        c = c.reshape(1, rows, mixer.n_groups, mixer.ssm_state_size)
        steps = record.outputs[f"{self.name}.in_proj"][:, :rows, mixer.intermediate_size + mixer.conv_dim :]
        for row in range(rows):
            one = slice(row, row + 1)
            _, state = ssm_update(
                x[:, one],
                mixer.A_log,
                b[:, one],
                c[:, one],
                mixer.D.astype(x.dtype),
                steps[:, one],
                mixer.dt_bias,
                state,
                mixer.time_step_limit,
                None,
            )
        return state


RECURRENCES = {"nemotron_h.NemotronHMamba2Mixer": Mamba2Recurrence}
"""By the class of the mixer in `mlx_lm.models`."""
