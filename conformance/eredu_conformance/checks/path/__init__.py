"""Checks of the path: for one seed, what may not change one token. All of them are equalities."""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.path import (
    addressed,
    company,
    coupled,
    endings,
    grammars,
    greedy,
    options,
    refusals,
    seeds,
    switches,
)


def checks() -> tuple[Check, ...]:
    """All of them, the plainest claims first."""
    return (
        *greedy.checks(),
        *coupled.checks(),
        *switches.checks(),
        *company.checks(),
        *seeds.checks(),
        *addressed.checks(),
        *options.checks(),
        *endings.checks(),
        *grammars.checks(),
        *refusals.checks(),
    )
