"""The grammar of an output: a state is an immutable value, so a future that is dropped leaves nothing behind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eredu_reference.errors import ConstraintError

State = Hashable
Mask = NDArray[np.bool_]


class Constraint(Protocol):
    """Which ids may come next. The constraint is immutable and so are its states."""

    @property
    def start(self) -> State:
        """State before the first output token."""
        ...

    def mask(self, state: State) -> Mask:
        """Allowed ids, shape (vocabulary,), bool; at least one of them unless the state is complete."""
        ...

    def advance(self, state: State, token: int) -> State:
        """State after `token`. Raises `ConstraintError` if the mask forbids it."""
        ...

    def complete(self, state: State) -> bool:
        """Whether the tokens so far are a whole sentence, which ends the output."""
        ...


@dataclass(frozen=True)
class DfaConstraint:
    """A grammar given as a deterministic automaton.

    Attributes:
        vocabulary: Number of ids.
        edges: Next state by (state, id); what is missing is forbidden.
        accepting: States in which the sentence is whole.
        start: State before the first output token.
    """

    vocabulary: int
    edges: Mapping[tuple[int, int], int]
    accepting: frozenset[int] = frozenset()
    start: int = 0

    def mask(self, state: State) -> Mask:
        """Ids that have an edge out of `state`."""
        return np.array([(state, token) in self.edges for token in range(self.vocabulary)], dtype=np.bool_)

    def advance(self, state: State, token: int) -> State:
        """Follow one edge."""
        for (source, label), target in self.edges.items():
            if source == state and label == token:
                return target
        raise ConstraintError(f"the grammar in state {state!r} forbids id {token}; mask rows before drawing from them")

    def complete(self, state: State) -> bool:
        """Whether `state` accepts."""
        return state in self.accepting


DEAD = "dead"
"""State behind a forbidden token. Nothing is ever emitted there: the token before it has probability 0."""


def state_after(constraint: Constraint | None, state: State, tokens: Iterable[int]) -> State:
    """State after several tokens, `DEAD` behind the first forbidden one; None stays None without a grammar."""
    if constraint is None:
        return None
    for token in tokens:
        if state == DEAD:
            return DEAD
        allowed = constraint.mask(state)
        state = constraint.advance(state, token) if token < len(allowed) and allowed[token] else DEAD
    return state


def is_complete(constraint: Constraint | None, state: State) -> bool:
    """Whether a grammar exists and is complete in `state`."""
    return constraint is not None and state != DEAD and constraint.complete(state)


def mask_of(constraint: Constraint | None, state: State) -> Mask | None:
    """Mask of a row in `state`; None where no grammar, a complete one, or a dead state restricts nothing."""
    if constraint is None or state == DEAD or constraint.complete(state):
        return None
    return constraint.mask(state)
