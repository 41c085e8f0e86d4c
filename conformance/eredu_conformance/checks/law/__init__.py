"""Checks of the law: outputs with proposals are distributed as outputs without.

Where a subject takes injected randomness the law is enumerated and the answer is exact. Elsewhere it is tested by
sampling: a sample that fits proves nothing, and each check states how rarely it accuses a right engine and which
deviation it would have seen.
"""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.law import enumerated, sampled


def checks() -> tuple[Check, ...]:
    """All of them, the exact ones first."""
    return (*enumerated.checks(), *sampled.checks())
