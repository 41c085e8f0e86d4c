"""Where target and drafter run, and how one waits for the other.

Three placements: one stream, two streams of one device (arrays are shared and MLX orders the streams by completion),
and two devices (a dependency is waited for and copied). Streams belong to the thread that made them, so they are
made for each thread on first use.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import mlx.core as mx
import numpy as np

from eredu.contract.errors import OptionError


class PlacementKind(StrEnum):
    """How target and drafter share the machine."""

    ONE_STREAM = "one-stream"
    TWO_STREAMS = "two-streams"
    TWO_DEVICES = "two-devices"


def on_cuda() -> bool:
    """Whether operations go to a CUDA device now."""
    return mx.default_device().type == mx.DeviceType.gpu and not mx.metal.is_available()


@dataclass(frozen=True)
class Placement:
    """Devices of target and drafter, and their streams in this thread.

    Args:
        kind: How they share the machine.
        target_device: The target's device.
        draft_device: The drafter's device; differs from the target's only under `TWO_DEVICES`.
    """

    kind: PlacementKind
    target_device: mx.Device
    draft_device: mx.Device
    _local: threading.local = field(default_factory=threading.local, repr=False, compare=False)

    # rule: placement.changes-no-token
    @classmethod
    def choose(cls, name: str = "auto") -> Placement:
        """Placement by name: `auto`, `one-stream`, `two-streams`, `two-devices` (drafter on the CPU).

        `auto` takes two streams on a CPU, whose streams are threads of their own, and one elsewhere: on a GPU two
        streams were measured to bring no overlap.
        """
        device = mx.default_device()
        on_cpu = device.type == mx.DeviceType.cpu
        if name == "auto":
            name = PlacementKind.TWO_STREAMS if on_cpu else PlacementKind.ONE_STREAM
        try:
            kind = PlacementKind(name)
        except ValueError:
            known = ", ".join(["auto", *PlacementKind])
            raise OptionError(f"placement was {name!r}; expected one of {known}") from None
        if kind is PlacementKind.TWO_DEVICES and on_cpu:
            raise OptionError("placement two-devices needs a GPU beside the CPU; use two-streams on this machine")
        return cls(kind, device, mx.Device(mx.cpu) if kind is PlacementKind.TWO_DEVICES else device)

    @property
    def target_stream(self) -> mx.Stream:
        """The target's stream in this thread."""
        return self._streams()[0]

    @property
    def draft_stream(self) -> mx.Stream:
        """The drafter's stream in this thread."""
        return self._streams()[1]

    def _streams(self) -> tuple[mx.Stream, mx.Stream]:
        streams: tuple[mx.Stream, mx.Stream] | None = getattr(self._local, "streams", None)
        if streams is None:
            target = mx.new_stream(self.target_device)
            alone = self.kind is PlacementKind.ONE_STREAM
            streams = (target, target if alone else mx.new_stream(self.draft_device))
            self._local.streams = streams
        return streams

    # rule: placement.producer-before-consumer, placement.changes-no-token
    def hand_over(self, array: mx.array) -> mx.array:
        """The array for use on the other side: shared on one device, waited for and copied between two."""
        if self.kind is not PlacementKind.TWO_DEVICES:
            return array
        return mx.array(np.array(array))


class Completion:
    """A running computation: keeps every array alive that it reads or writes until it has been waited for."""

    def __init__(self, *arrays: mx.array, keeps: tuple[Any, ...] = ()) -> None:
        self._arrays = arrays
        self._keeps = keeps
        mx.async_eval(*arrays)

    # rule: placement.wait-before-read
    def wait(self) -> None:
        """Wait until the arrays are computed, then let go of what they needed. Waiting again is harmless."""
        mx.eval(*self._arrays)
        self._keeps = ()
