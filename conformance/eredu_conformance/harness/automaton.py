"""The protocol's automata as grammars of the reference."""

from __future__ import annotations

from eredu_conformance.protocol.options import Grammar
from eredu_reference import DfaConstraint


def automaton_constraint(grammar: Grammar, vocabulary: int) -> DfaConstraint:
    """The grammar of a run: states that allow nothing are complete.

    Args:
        grammar: The automaton, see `Grammar`.
        vocabulary: Number of ids.
    """
    edges = {(state, token): after for state, row in enumerate(grammar) for token, after in row}
    return DfaConstraint(vocabulary, edges, frozenset(state for state, row in enumerate(grammar) if not row))
