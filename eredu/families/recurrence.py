"""Recurrences of the layers that keep a state instead of keys; each family's is in `recurrence.py` of its folder.

A recurrence is run again over recorded inputs, one row at a time, which is how decoding runs it, unless its state was
noted behind each row; projections, convolution and everything behind the recurrence are not. Entry 0 of a state is the
tail of the convolution's input, entry 1 the recurrent state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.registry import parts_named
from eredu.mlx.adapter import LanguageModel, class_of
from eredu.mlx.caches.recurrent import Recurrence, State
from eredu.mlx.taps import Recording, tap


class MixerRecurrence(ABC):
    """The recurrence behind a convolution in one layer; taps the modules whose outputs it runs on.

    Args:
        mixer: The layer's module.
        name: Prefix of its taps.
        gates: Names of the projections beside the convolution that the recurrence reads.
    """

    def __init__(self, mixer: Any, name: str, *gates: str) -> None:
        self.mixer = mixer
        self.name = name
        for part in ("conv1d", *gates):
            tap(getattr(mixer, part), f"{name}.{part}")

    def advance(self, state: State, record: Recording, rows: int) -> State:
        """State after the first `rows` rows of a recorded feed that started in `state`."""
        convolution = f"{self.name}.conv1d"
        tail = record.inputs[convolution][:, rows : rows + self.mixer.conv_kernel_size - 1, :]
        noted = record.states.get(id(self.mixer))
        if noted is not None:
            return tail, noted[rows - 1]
        return tail, self.run(state[1], nn.silu(record.outputs[convolution][:, :rows]), record, rows)

    @abstractmethod
    def run(self, state: mx.array | None, mixed: mx.array, record: Recording, rows: int) -> mx.array | None:
        """The recurrent state after `rows` rows, run row by row over the activated output of the convolution."""


def recurrences_of(model: LanguageModel) -> Mapping[int, Recurrence]:
    """The recurrence of every layer that has one, by the layer's place among the model's caches; taps its modules.

    Layers without any cache (a bare MLP or mixture of experts) take no place.
    """
    kinds = {name: kind for part in parts_named("recurrence").values() for name, kind in part.RECURRENCES.items()}
    found: dict[int, Recurrence] = {}
    place = 0
    for index, layer in enumerate(cast(Any, model).layers):
        mixer = next((getattr(layer, name) for name in ("linear_attn", "mixer") if name in layer), None)
        kind = kinds.get(class_of(mixer))
        if kind is not None:
            found[place] = kind(mixer, f"layers.{index}")
        if getattr(layer, "block_type", "*") in {"*", "M"}:
            place += 1
    return found
