"""A report as JSON: everything, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from eredu_conformance.runner.replay import replay_command
from eredu_conformance.runner.report import Report


def report_record(report: Report) -> dict[str, Any]:
    """The whole report as JSON-able values."""
    capabilities = report.capabilities
    return {
        "subject": {
            "name": report.source.command or report.source.name,
            "declared": None if capabilities is None else _declared(report),
        },
        "tier": report.plan.tier.value,
        "seed": report.plan.seed,
        "elapsed_s": round(report.elapsed_s, 3),
        "status": int(report.status),
        "smoke": [{**asdict(check), "blame": check.blame.value} for check in report.smoke.checks],
        "rules": [
            {"rule": line.rule, "verdict": line.verdict, "checks": [result.id for result in line.results]}
            for line in report.rules
        ],
        "families": [
            {"family": line.family, "claims": {cell.claim: cell.verdict for cell in line.cells}}
            for line in report.families
        ],
        "checks": [
            {
                **asdict(result),
                "outcome": result.outcome.value,
                "standing": str(standing) if (standing := report.standing(result)) else None,
                "replay": replay_command(report.source, result),
            }
            for result in report.results
        ],
        "stale_expectations": [entry.check for entry in report.stale],
    }


def _declared(report: Report) -> dict[str, Any]:
    assert report.capabilities is not None, "a subject that was judged has declared itself"
    declared = dict(vars(report.capabilities))
    for name, value in declared.items():
        if isinstance(value, frozenset):
            declared[name] = sorted(str(item) for item in value)
    declared["acceptance"] = [rule.value for rule in report.capabilities.acceptance]
    declared["own_semantics"] = dict(report.capabilities.own_semantics)
    return declared
