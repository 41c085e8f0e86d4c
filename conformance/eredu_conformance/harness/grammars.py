"""Small grammars: one that completes, and one that begins with a trigger."""

from __future__ import annotations

from eredu_reference import DfaConstraint


def bracket_grammar(vocabulary: int) -> DfaConstraint:
    """Sentences 0 (1|2)* 3 x with any x: id 0 opens, 1 and 2 fill, 3 closes, one more id completes.

    Every state forbids something but the one behind the closing id.
    """
    edges = {(0, 0): 1, (1, 1): 1, (1, 2): 2, (2, 1): 1, (2, 3): 3, (1, 3): 3}
    edges |= {(3, token): 4 for token in range(vocabulary)}
    return DfaConstraint(vocabulary, edges, frozenset({4}))


def triggered_grammar(vocabulary: int) -> DfaConstraint:
    """Anything goes until id 1; then exactly one of 0 and 3, then 2, then anything again."""
    edges = {(0, token): 0 for token in range(vocabulary) if token != 1}
    edges |= {(0, 1): 1, (1, 0): 2, (1, 3): 2, (2, 2): 0}
    return DfaConstraint(vocabulary, edges)
