"""Gated delta layers that run row by row where the state behind each row is wanted: a rollback then only picks one.

On CUDA lent layers run by a kernel of ours, whether states are wanted or not: see `eredu.mlx.gated_kernel`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx

from eredu.mlx.adapter import gated_delta_decay, gated_delta_update
from eredu.mlx.gated_kernel import kernel_takes, run_gated_delta

NoteStates = Callable[[list[mx.array]], None]
"""Takes the recurrent state behind each row of a block."""


@dataclass(frozen=True)
class _Lent:
    """A call of a lent layer, and who wants its states, if anyone does."""

    note: NoteStates | None


_LENT: ContextVar[_Lent | None] = ContextVar("eredu_gated_rows", default=None)


def lend_gated_delta(mixer: type[Any]) -> Callable[[NoteStates | None], AbstractContextManager[None]]:
    """Let the gated delta layers of one class run their recurrence here.

    The layer finds the recurrence by its name in its own module, so the name is pointed at a function that, outside of
    the returned context, is mlx-lm's.

    Args:
        mixer: The class of the layers.

    Returns:
        A context for a call of a layer. Given who takes states, the recurrence takes one row at a time, as decoding
        does, and tells the state behind each.
    """
    module: Any = sys.modules[mixer.__module__]
    if module.gated_delta_update is gated_delta_update:
        module.gated_delta_update = _gated_delta_rows
    return _lent


@contextmanager
def _lent(note: NoteStates | None) -> Iterator[None]:
    token = _LENT.set(_Lent(note))
    try:
        yield
    finally:
        _LENT.reset(token)


def run_gated_rows(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    a: mx.array,
    b: mx.array,
    log_decay: mx.array,
    bias: mx.array,
    state: mx.array | None,
) -> tuple[mx.array, list[mx.array]]:
    """Run the recurrence row by row, as decoding does: outputs, and the state behind each row.

    Arguments are those of mlx-lm's `gated_delta_update`, for one sequence.
    """
    if kernel_takes(q, v, state):
        output, states = _by_kernel(q, k, v, a, b, log_decay, bias, state, every=True)
        return output, [states[row : row + 1] for row in range(q.shape[1])]
    outputs, behind = [], []
    for row in range(q.shape[1]):
        parts = (array[:, row : row + 1] for array in (q, k, v, a, b))
        output, state = _theirs(*parts, log_decay, bias, state)
        outputs.append(output)
        behind.append(state)
    return mx.concatenate(outputs, axis=1), behind


def _gated_delta_rows(*arguments: Any, **options: Any) -> tuple[mx.array, mx.array]:
    """What lent layers call; arguments and result are those of mlx-lm's `gated_delta_update`."""
    lent = _LENT.get()
    q, _, v, _, _, _, _, state, *mask = arguments
    # The layers pass no other option; a mask comes with batches alone, and nobody wants their rows' states.
    if lent is None or mask not in ([], [None]) or options not in ({}, {"use_kernel": True}):
        return _theirs(*arguments, **options)
    if lent.note is not None:
        output, states = run_gated_rows(*arguments[:8])
        lent.note(states)
        return output, states[-1]
    if kernel_takes(q, v, state):
        return _by_kernel(*arguments[:8], every=False)
    return _theirs(*arguments, **options)


def _by_kernel(*inputs: Any, every: bool) -> tuple[mx.array, mx.array]:
    q, k, v, a, b, log_decay, bias, state = inputs
    start = mx.zeros((1, *v.shape[2:], q.shape[-1])) if state is None else state
    return run_gated_delta(q, k, v, gated_delta_decay(log_decay, a, bias), mx.sigmoid(b), start, every=every)


def _theirs(*arguments: Any, **options: Any) -> tuple[mx.array, mx.array]:
    return cast("tuple[mx.array, mx.array]", gated_delta_update(*arguments, **options))
