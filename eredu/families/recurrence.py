"""Recurrences of the layers that keep a state instead of keys: gated delta rule (Qwen) and Mamba 2 (Nemotron-H).

Each is run again over recorded inputs, one row at a time, which is how decoding runs it, unless its state was noted
behind each row; projections, convolution and everything behind the recurrence are not. Entry 0 of a state is the tail
of the convolution's input, entry 1 the recurrent state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.mlx.adapter import LanguageModel, normalize_qk, ssm_update
from eredu.mlx.caches.recurrent import Recurrence, State
from eredu.mlx.gated_rows import run_gated_rows
from eredu.mlx.taps import Recording, tap


def _convolved(record: Recording, name: str, rows: int, kernel: int) -> tuple[mx.array, mx.array]:
    """Tail of the convolution's input behind `rows` rows, and its activated output for them."""
    tail = record.inputs[name][:, rows : rows + kernel - 1, :]
    return tail, nn.silu(record.outputs[name][:, :rows])


@dataclass(frozen=True)
class GatedDeltaRecurrence:
    """Gated delta rule (Yang et al. 2024, arXiv 2412.06464), as in Qwen3-Next and Qwen3.5.

    Attributes:
        mixer: The layer's module.
        name: Prefix of its taps.
    """

    mixer: Any
    name: str

    @classmethod
    def of(cls, mixer: Any, name: str) -> GatedDeltaRecurrence:
        """Tap a mixer and describe its recurrence."""
        tap(mixer.conv1d, f"{name}.conv1d")
        joint = hasattr(mixer, "in_proj_ba")
        for part in ("in_proj_ba",) if joint else ("in_proj_a", "in_proj_b"):
            tap(getattr(mixer, part), f"{name}.{part}")
        return cls(mixer, name)

    def advance(self, state: State, record: Recording, rows: int) -> State:
        """State after the first `rows` rows of a recorded feed that started in `state`."""
        mixer = self.mixer
        tail, mixed = _convolved(record, f"{self.name}.conv1d", rows, mixer.conv_kernel_size)
        noted = record.states.get(id(mixer))
        if noted is not None:
            return tail, noted[rows - 1]
        q, k, v = mx.split(mixed, [mixer.key_dim, 2 * mixer.key_dim], axis=-1)
        q = q.reshape(1, rows, mixer.num_k_heads, mixer.head_k_dim)
        k = k.reshape(1, rows, mixer.num_k_heads, mixer.head_k_dim)
        v = v.reshape(1, rows, mixer.num_v_heads, mixer.head_v_dim)
        q, k = normalize_qk(q, k, inv_scale=mixer.head_k_dim**-0.5, eps=1e-6)
        b, a = self._gates(record, rows)
        _, states = run_gated_rows(q, k, v, a, b, mixer.A_log, mixer.dt_bias, state[1])
        return tail, states[-1]

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
        tail, mixed = _convolved(record, f"{self.name}.conv1d", rows, mixer.conv_kernel_size)
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


_KINDS: dict[str, type[GatedDeltaRecurrence | Mamba2Recurrence]] = {
    "GatedDeltaNet": GatedDeltaRecurrence,
    "Qwen3NextGatedDeltaNet": GatedDeltaRecurrence,
    "NemotronHMamba2Mixer": Mamba2Recurrence,
}
"""Recurrences by the class of the mixer in mlx-lm."""


def recurrences_of(model: LanguageModel) -> Mapping[int, Recurrence]:
    """The recurrence of every layer that has one, by the layer's place among the model's caches; taps its modules.

    Layers without any cache (a bare MLP or mixture of experts) take no place.
    """
    found: dict[int, Recurrence] = {}
    place = 0
    for index, layer in enumerate(cast(Any, model).layers):
        mixer = next((getattr(layer, name) for name in ("linear_attn", "mixer") if name in layer), None)
        kind = None if mixer is None else _KINDS.get(type(mixer).__name__)
        if kind is not None:
            found[place] = kind.of(mixer, f"layers.{index}")
        if getattr(layer, "block_type", "*") in {"*", "M"}:
            place += 1
    return found
