"""Checks of the path: for one seed, what may not change one token. All of them are equalities."""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.path import company, coupled, endings, grammars, greedy, options, refusals, switches


def checks() -> tuple[Check, ...]:
    """All of them, the plainest claims first."""
    return (
        *greedy.checks(),
        *coupled.checks(),
        *switches.checks(),
        *company.checks(),
        *options.checks(),
        *endings.checks(),
        *grammars.checks(),
        *refusals.checks(),
    )
