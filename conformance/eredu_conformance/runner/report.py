"""A run as a whole: results by rule, and whether anybody has to act."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from eredu_conformance.checks.registry import all_checks
from eredu_conformance.protocol import Capabilities, ExpectedFailure, ExpectedFailures, SmokeReport, Standing
from eredu_conformance.protocol.opening import SubjectSource
from eredu_conformance.runner.plan import Plan
from eredu_conformance.runner.result import CheckResult, Outcome


class Status(IntEnum):
    """Exit status of a run."""

    CONFORMING = 0
    NOT_CONFORMING = 1
    COULD_NOT_RUN = 2


@dataclass(frozen=True)
class RuleLine:
    """All results about one rule.

    Attributes:
        rule: The rule.
        results: Its results, in the order of the run.
    """

    rule: str
    results: tuple[CheckResult, ...]

    def count(self, outcome: Outcome) -> int:
        """Results with an outcome."""
        return sum(result.outcome is outcome for result in self.results)

    @property
    def verdict(self) -> str:
        """In words that claim no more than was seen."""
        if self.count(Outcome.FAILED):
            return "broken"
        if self.count(Outcome.BROKEN):
            return "not judged"
        return "no violation seen" if self.count(Outcome.PASSED) else "not asked"


@dataclass(frozen=True)
class FamilyCell(RuleLine):
    """All results about one claim for one model family; `rule` is the rule of the first."""

    @property
    def claim(self) -> str:
        """The claim: what stands between the kind and the family in the ids."""
        return self.results[0].id.partition("/")[0].partition(".")[2]

    @property
    def passed(self) -> int:
        """Results that passed."""
        return self.count(Outcome.PASSED)


@dataclass(frozen=True)
class FamilyLine:
    """All results about one model family.

    Attributes:
        family: The family.
        cells: Its claims, in the order of the run.
    """

    family: str
    cells: tuple[FamilyCell, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run.

    Attributes:
        source: The subject, as it was named.
        plan: What was chosen.
        smoke: The smoke stage.
        capabilities: What the subject declared; None where the smoke stage ended the run.
        results: One for each check, in the order of the plan.
        expected: The adopter's expected failures, if given.
        elapsed_s: Seconds of everything.
    """

    source: SubjectSource
    plan: Plan
    smoke: SmokeReport
    capabilities: Capabilities | None = None
    results: tuple[CheckResult, ...] = ()
    expected: ExpectedFailures | None = None
    elapsed_s: float = 0.0

    @property
    def subject(self) -> str:
        """Name and version, as far as they are known."""
        if self.capabilities is None:
            return self.source.command or self.source.name
        return f"{self.capabilities.name} {self.capabilities.version}"

    @cached_property
    def counts(self) -> Counter[Outcome]:
        """Results by outcome."""
        return Counter(result.outcome for result in self.results)

    @cached_property
    def rules(self) -> tuple[RuleLine, ...]:
        """Results by rule, in the order in which rules come first."""
        names = dict.fromkeys(result.rule for result in self.results)
        return tuple(RuleLine(name, tuple(r for r in self.results if r.rule == name)) for name in sorted(names))

    @cached_property
    def families(self) -> tuple[FamilyLine, ...]:
        """Results by model family, in the order of the run; empty where no family was asked for."""
        lines: dict[str, dict[str, list[CheckResult]]] = {}
        for result in self.results:
            if result.family is not None:
                claims = lines.setdefault(result.family, {})
                claims.setdefault(result.id.partition("/")[0], []).append(result)
        return tuple(
            FamilyLine(family, tuple(FamilyCell(found[0].rule, tuple(found)) for found in claims.values()))
            for family, claims in lines.items()
        )

    def standing(self, result: CheckResult) -> Standing | None:
        """A result beside what was expected; None for one that was skipped or not judged."""
        if result.outcome not in {Outcome.PASSED, Outcome.FAILED}:
            return None
        passed = result.outcome is Outcome.PASSED
        if self.expected is None or self.capabilities is None:
            return Standing.PASSED if passed else Standing.FAILED
        return self.expected.standing(result.id, self.capabilities.version, passed=passed)

    @cached_property
    def failures(self) -> tuple[CheckResult, ...]:
        """Failures that nobody expected."""
        return tuple(result for result in self.results if self.standing(result) is Standing.FAILED)

    @cached_property
    def surprises(self) -> tuple[CheckResult, ...]:
        """Passes where a failure was expected."""
        return tuple(result for result in self.results if self.standing(result) is Standing.UNEXPECTED_PASS)

    @cached_property
    def stale(self) -> tuple[ExpectedFailure, ...]:
        """Entries of the adopter's file that speak for no check that there is, chosen or not."""
        if self.expected is None or self.capabilities is None:
            return ()
        return self.expected.unmatched([check.id for check in all_checks()], self.capabilities.version)

    @property
    def status(self) -> Status:
        """The exit status."""
        if self.capabilities is None or self.counts[Outcome.BROKEN]:
            return Status.COULD_NOT_RUN
        smoked = all(check.passed is not False for check in self.smoke.checks)
        acts = self.failures or self.surprises or self.stale
        return Status.CONFORMING if smoked and not acts else Status.NOT_CONFORMING
