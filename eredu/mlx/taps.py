"""Taps: what flows into and out of chosen modules of a model that mlx-lm built, without forking its forward pass.

A tapped module's class is a subclass that records and otherwise does what it did: logits are bitwise the same, and so
are parameter names. Records go to the call that asked for them, not to the module, so threads and sequences do not
meet in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn


@dataclass(slots=True)
class Recording:
    """What the tapped modules saw during one forward pass.

    Attributes:
        inputs: First argument of each tapped module, by the name of its tap.
        outputs: Its result.
        states: The recurrent state behind each row, of modules that note it (`note_states`), by the identity of the
            module.
    """

    inputs: dict[str, mx.array] = field(default_factory=dict)
    outputs: dict[str, mx.array] = field(default_factory=dict)
    states: dict[int, list[mx.array]] = field(default_factory=dict)


_ACTIVE: ContextVar[Recording | None] = ContextVar("eredu_recording", default=None)
_NAME = "_eredu_tap"


def tap(module: nn.Module, name: str) -> None:
    """Tap a module under a name. Tapping again under the same name changes nothing."""
    if getattr(module, _NAME, None) is None:
        module.__class__ = _tapped_class(type(module))
    object.__setattr__(module, _NAME, name)


@contextmanager
def recording() -> Iterator[Recording]:
    """Record every tapped module that runs inside the context, in this thread."""
    record = Recording()
    token = _ACTIVE.set(record)
    try:
        yield record
    finally:
        _ACTIVE.reset(token)


def note_states(module: nn.Module, states: list[mx.array]) -> None:
    """Note the recurrent state of a module behind each row of this forward pass, if it is recorded."""
    record = _ACTIVE.get()
    if record is not None:
        record.states[id(module)] = states


@cache
def _tapped_class(original: type[Any]) -> type[Any]:
    def call(self: Any, x: mx.array, *args: Any, **options: Any) -> Any:
        result = original.__call__(self, x, *args, **options)
        record = _ACTIVE.get()
        if record is not None:
            name = getattr(self, _NAME)
            record.inputs[name], record.outputs[name] = x, result
        return result

    return type(original.__name__, (original,), {"__call__": call, "__module__": original.__module__})
