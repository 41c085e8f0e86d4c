"""Recurrences of the layers that keep a state instead of keys; each family's is in `recurrence.py` of its folder.

A recurrence is run again over recorded inputs, one row at a time, which is how decoding runs it, unless its state was
noted behind each row; projections, convolution and everything behind the recurrence are not. Entry 0 of a state is the
tail of the convolution's input, entry 1 the recurrent state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.folders import parts_named
from eredu.mlx.adapter import LanguageModel, class_of
from eredu.mlx.caches.recurrent import Recurrence
from eredu.mlx.taps import Recording


def convolved(record: Recording, name: str, rows: int, kernel: int) -> tuple[mx.array, mx.array]:
    """Tail of the convolution's input behind `rows` rows, and its activated output for them."""
    tail = record.inputs[name][:, rows : rows + kernel - 1, :]
    return tail, nn.silu(record.outputs[name][:, :rows])


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
            found[place] = kind.of(mixer, f"layers.{index}")
        if getattr(layer, "block_type", "*") in {"*", "M"}:
            place += 1
    return found
