"""Checks in lock-step: eredu's scheduler and the machine of the spec, compared after every action.

They need Hypothesis, which is imported when one is run, so that the list of checks does not need it.
"""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.stateful import lock_step


def checks() -> tuple[Check, ...]:
    """One for each machine and tier."""
    return tuple(lock_step.checks())
