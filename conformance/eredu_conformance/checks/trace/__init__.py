"""Checks of the trace: what an engine wrote about itself is replayed through the machine of the spec."""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.trace import replayed


def checks() -> tuple[Check, ...]:
    """One replay for each situation, pair and rule of acceptance."""
    return tuple(replayed.checks())
