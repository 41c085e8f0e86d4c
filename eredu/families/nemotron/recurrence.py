"""The selective state space of Nemotron-H, run again for a rollback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from eredu.families.recurrence import convolved
from eredu.mlx.adapter import ssm_update
from eredu.mlx.caches.recurrent import State
from eredu.mlx.taps import Recording, tap


@dataclass(frozen=True)
class Mamba2Recurrence:
    """Selective state space (Dao and Gu 2024, arXiv 2405.21060), as in Nemotron-H.

    Attributes:
        mixer: The layer's module.
        name: Prefix of its taps.
    """

    mixer: Any
    name: str

    @classmethod
    def of(cls, mixer: Any, name: str) -> Mamba2Recurrence:
        """Tap a mixer and describe its recurrence."""
        tap(mixer.conv1d, f"{name}.conv1d")
        tap(mixer.in_proj, f"{name}.in_proj")
        return cls(mixer, name)

    def advance(self, state: State, record: Recording, rows: int) -> State:
        """State after the first `rows` rows of a recorded feed that started in `state`."""
        mixer = self.mixer
        tail, mixed = convolved(record, f"{self.name}.conv1d", rows, mixer.conv_kernel_size)
        noted = record.states.get(id(mixer))
        if noted is not None:
            return tail, noted[rows - 1]
        groups = mixer.n_groups * mixer.ssm_state_size
        x, b, c = mx.split(mixed, [mixer.intermediate_size, mixer.intermediate_size + groups], axis=-1)
        x = x.reshape(1, rows, mixer.num_heads, mixer.head_dim)
        b = b.reshape(1, rows, mixer.n_groups, mixer.ssm_state_size)
        c = c.reshape(1, rows, mixer.n_groups, mixer.ssm_state_size)
        steps = record.outputs[f"{self.name}.in_proj"][:, :rows, mixer.intermediate_size + mixer.conv_dim :]
        current = state[1]
        for row in range(rows):
            one = slice(row, row + 1)
            _, current = ssm_update(
                x[:, one],
                mixer.A_log,
                b[:, one],
                c[:, one],
                mixer.D.astype(x.dtype),
                steps[:, one],
                mixer.dt_bias,
                current,
                mixer.time_step_limit,
                None,
            )
        return tail, current


RECURRENCES = {"nemotron_h.NemotronHMamba2Mixer": Mamba2Recurrence}
"""By the class of the mixer in `mlx_lm.models`."""
