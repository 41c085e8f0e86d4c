"""Rows of the matrix, collected from the spec, the markers, the checks and the planted faults."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_conformance.checks.registry import all_checks
from eredu_conformance.faults import FAULTS
from eredu_conformance.faults.engine import ENGINE_FAULTS
from eredu_conformance.matrix.markers import MarkerError, Site, marked_sites
from eredu_conformance.matrix.places import Places, installed_places
from eredu_spec.rules import Rule, model_sites, rules


@dataclass(frozen=True, slots=True)
class Kill:
    """A planted fault and what must notice it.

    Attributes:
        fault: Its name.
        planted: Where: `reference` or `eredu`.
        killer: A check, or a pattern over checks, for a fault of the reference; a test for one of the engine.
    """

    fault: str
    planted: str
    killer: str


@dataclass(frozen=True, slots=True)
class Row:
    """What stands for one rule.

    Attributes:
        rule: Its name, paragraph and reason.
        model: Functions of the machine, as dotted names.
        implementation: Sites in eredu.
        tests: Tests of the suite.
        checks: Claims that the suite makes of any engine, as `kind.claim`, with the number of its cases.
        kills: Faults and their killers.
    """

    rule: Rule
    model: tuple[str, ...]
    implementation: tuple[Site, ...]
    tests: tuple[Site, ...]
    checks: dict[str, int]
    kills: tuple[Kill, ...]

    @property
    def empty(self) -> list[str]:
        """Names of the cells that hold nothing."""
        cells = {
            "model": self.model,
            "implementation": self.implementation,
            "tests": self.tests,
            "fault": self.kills,
        }
        return [name for name, cell in cells.items() if not cell]


def matrix(places: Places | None = None) -> dict[str, Row]:
    """All rows by rule. Raises `MarkerError` if anything names a rule that has no paragraph."""
    places = places or installed_places()
    models, checks, kills = model_sites(), _checks(), _kills()
    implementation = marked_sites(places.implementation, places.root)
    tests = {} if places.tests is None else marked_sites(places.tests, places.tests.parents[1])
    _refuse_unknown("a marker", {*implementation})
    _refuse_unknown("a test", {*tests})
    _refuse_unknown("a check", {*checks})
    _refuse_unknown("a fault", {*kills})
    return {
        name: Row(
            rule=rule,
            model=models[name],
            implementation=tuple(implementation.get(name, ())),
            tests=tuple(tests.get(name, ())),
            checks=checks.get(name, {}),
            kills=tuple(kills.get(name, ())),
        )
        for name, rule in rules().items()
    }


def row_of(rule: str, places: Places | None = None) -> Row:
    """The row of one rule. Raises `KeyError` where there is none."""
    return matrix(places)[rule]


def _refuse_unknown(kind: str, names: set[str]) -> None:
    unknown = sorted(names - rules().keys())
    if unknown:
        raise MarkerError(f"{kind} names {', '.join(unknown)}, which the spec does not have; names are never reused")


def _checks() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for check in all_checks():
        claims = found.setdefault(check.rule, {})
        claim = check.id.partition("/")[0]
        claims[claim] = claims.get(claim, 0) + 1
    return found


def _kills() -> dict[str, list[Kill]]:
    found: dict[str, list[Kill]] = {}
    for fault in FAULTS:
        found.setdefault(fault.rule, []).append(Kill(fault.name, "reference", fault.killed_by))
    for planted in ENGINE_FAULTS:
        found.setdefault(planted.rule, []).append(Kill(planted.name, "eredu", planted.killer))
    return found
