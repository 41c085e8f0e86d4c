"""Gated delta layers that run row by row where the state behind each row is wanted: a rollback then only picks one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, cast

import mlx.core as mx

from eredu.mlx.adapter import gated_delta_update

NoteStates = Callable[[list[mx.array]], None]
"""Takes the recurrent state behind each row of a block."""
_NOTING: ContextVar[NoteStates | None] = ContextVar("eredu_noting", default=None)


def lend_gated_delta(mixer: type[Any]) -> Callable[[NoteStates], AbstractContextManager[None]]:
    """Let the gated delta layers of one class run row by row where their states are wanted.

    The layer finds the recurrence by its name in its own module, so the name is pointed at a function that, outside of
    the returned context, is mlx-lm's.

    Args:
        mixer: The class of the layers.

    Returns:
        A context in which each layer's recurrence takes one row at a time, as decoding does, and tells the states.
    """
    module: Any = sys.modules[mixer.__module__]
    if module.gated_delta_update is gated_delta_update:
        module.gated_delta_update = _gated_delta_rows
    return _noting


@contextmanager
def _noting(note: NoteStates) -> Iterator[None]:
    token = _NOTING.set(note)
    try:
        yield
    finally:
        _NOTING.reset(token)


def _gated_delta_rows(
    q: mx.array, k: mx.array, v: mx.array, a: mx.array, b: mx.array, *rest: Any, **options: Any
) -> tuple[mx.array, mx.array]:
    note = _NOTING.get()
    if note is None:
        return cast("tuple[mx.array, mx.array]", gated_delta_update(q, k, v, a, b, *rest, **options))
    log_decay, bias, state, *mask = rest
    outputs, states = [], []
    for row in range(q.shape[1]):
        parts = (array[:, row : row + 1] for array in (q, k, v, a, b))
        output, state = gated_delta_update(*parts, log_decay, bias, state, *mask, **options)
        outputs.append(output)
        states.append(state)
    note(states)
    return mx.concatenate(outputs, axis=1), state
