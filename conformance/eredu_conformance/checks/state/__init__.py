"""Checks of the state: what caches, statistics and boundaries hold, as far as tokens, counters and traces show it.

The crafted laws depend on every cached row, its order and its position, so a wrong state is a wrong token. The
white-box half (snapshots of the caches themselves) belongs to the engine's own tests.
"""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.state import boundary, prefill, reference_statistics, rollback, statistics, windows


def checks() -> tuple[Check, ...]:
    """All of them, rollback first."""
    return (
        *rollback.checks(),
        *windows.checks(),
        *prefill.checks(),
        *statistics.checks(),
        *reference_statistics.checks(),
        *boundary.checks(),
    )
