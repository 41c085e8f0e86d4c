"""What came of one check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from eredu_conformance.checks.check import Check


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The subject doesn't claim to do this."""
    BROKEN = "broken"
    """The check itself raised: a fault of the suite, which says nothing about the subject."""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check's result, as plain values that travel between processes.

    Attributes:
        id: Its id.
        rule: Its rule.
        kind: Its kind.
        tier: Its tier.
        about: Its claim.
        seed: The seed it ran with.
        outcome: How it ended.
        message: What was seen; the reason of a skip.
        history: The smallest history found, of a failure.
        case: The smallest case found, of a failure.
        figures: Numbers by name.
        elapsed_s: Seconds it took.
        runs: Runs that it asked of the subject.
        tokens: Output tokens that it saw.
        family: The model family that it is about, or None.
    """

    id: str
    rule: str
    kind: str
    tier: str
    about: str
    seed: int
    outcome: Outcome
    message: str = ""
    history: tuple[int, ...] = ()
    case: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    elapsed_s: float = 0.0
    runs: int = 0
    tokens: int = 0
    family: str | None = None

    @classmethod
    def of(cls, check: Check, seed: int, outcome: Outcome, message: str, **others: Any) -> CheckResult:
        """A result of a check."""
        return cls(
            id=check.id,
            rule=check.rule,
            kind=check.kind.value,
            tier=check.tier.value,
            about=check.about,
            seed=seed,
            outcome=outcome,
            message=message,
            family=check.family,
            **others,
        )
