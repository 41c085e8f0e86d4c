"""A grammar as a finite automaton over token ids, small enough for exact laws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eredu_spec.sites import obeys

Tokens = tuple[int, ...]


@obeys("constraints.state-from-history")
@dataclass(frozen=True, eq=False)
class Grammar:
    """A deterministic automaton that starts in state 0.

    Attributes:
        edges: Next state by (state, token); a token without an edge is illegal there.
        complete: States in which the output is complete and must end.
    """

    edges: Mapping[tuple[int, int], int]
    complete: frozenset[int]

    def state(self, output: Tokens) -> int | None:
        """State behind an output, a function of the tokens alone; None once a token was illegal."""
        state = 0
        for token in output:
            following = self.edges.get((state, token))
            if following is None:
                return None
            state = following
        return state

    def is_complete(self, output: Tokens) -> bool:
        """Whether the output is complete."""
        return self.state(output) in self.complete

    def is_legal(self, output: Tokens, token: int) -> bool:
        """Whether `token` may follow `output`; nothing may follow a complete one."""
        state = self.state(output)
        return state is not None and state not in self.complete and (state, token) in self.edges
