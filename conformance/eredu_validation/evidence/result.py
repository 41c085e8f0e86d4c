"""The result as one JSON object, described by `result.schema.json` in this folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from eredu.files.json_reading import parse_json
from eredu_validation.evidence.diagnostics import Diagnostic, diagnose, holm
from eredu_validation.evidence.json_form import finite
from eredu_validation.evidence.ledger_content import Header, LedgerContent
from eredu_validation.evidence.merging import Merged
from eredu_validation.evidence.process import Terms
from eredu_validation.evidence.tally import DIAGNOSED, Tally
from eredu_validation.evidence.verdict import Verdict, judge

SCHEMA = "eredu-evidence/1"
PATH_POINTS = 2000
"""Points of the path at the most."""


def result_schema() -> dict[str, Any]:
    """The JSON schema of a result."""
    text = resources.files("eredu_validation.evidence").joinpath("result.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = parse_json(text)
    return schema


def result_of_run(
    content: LedgerContent, *, resolve: float | None = None, planned: int | None = None
) -> dict[str, Any]:
    """Result of one ledger.

    Args:
        content: What the ledger says.
        resolve: Total variation that had to be resolved.
        planned: Tokens that had to be taken.
    """
    terms = content.header.terms
    verdict = judge(content.tally, terms, crossing=content.crossing, resolve=resolve, planned=planned)
    return _result([content.header], terms, content.tally, verdict, path=content.path)


def result_of_merged(merged: Merged, *, resolve: float | None = None, planned: int | None = None) -> dict[str, Any]:
    """Result of several ledgers as one. It has no path, because its runs have no common order."""
    verdict = judge(merged.tally, merged.terms, resolve=resolve, planned=planned)
    return _result(merged.headers, merged.terms, merged.tally, verdict, path=())


def _result(
    headers: Sequence[Header],
    terms: Terms,
    tally: Tally,
    verdict: Verdict,
    *,
    path: tuple[tuple[int, float], ...],
) -> dict[str, Any]:
    tests = diagnose(tally, tolerance=terms.tolerance)
    rejected = holm(tests, terms.alpha)
    return {
        "schema": SCHEMA,
        "subject": headers[0].identity.record(),
        "runs": [{"run": header.run, "seed": header.seed, "part": header.part} for header in headers],
        "terms": {"alpha": terms.alpha, "tolerance": terms.tolerance},
        "verdict": _verdict_record(verdict),
        "strata": {
            name: {"tokens": stratum.tokens, "impossible": stratum.impossible}
            for name, stratum in sorted(tally.strata.items())
        },
        "diagnostics": [_diagnostic_record(test, rejected) for test in tests],
        "transforms": {order.value: list(tally.cells(order)) for order in DIAGNOSED},
        "path": [[tokens, finite(log_e)] for tokens, log_e in thinned(path)],
    }


def thinned(path: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """At most about `PATH_POINTS` points of a path, the last one among them."""
    step = math.ceil(len(path) / PATH_POINTS) or 1
    return path[::-step][::-1]


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    return {
        "conclusion": verdict.conclusion.value,
        "exit_status": verdict.conclusion.exit_status,
        "text": verdict.text,
        "tokens": verdict.tokens,
        "impossible_tokens": verdict.impossible,
        "log_e_value": finite(verdict.log_e),
        "resolved_total_variation": verdict.resolved,
        "miss_probability": verdict.miss,
        "needed_tokens": verdict.needed,
        "reason": verdict.reason,
        "first_seen": None if verdict.crossing is None else asdict(verdict.crossing),
        "best_bets": [asdict(bet) for bet in verdict.best],
    }


def _diagnostic_record(test: Diagnostic, rejected: tuple[Diagnostic, ...]) -> dict[str, Any]:
    return {**asdict(test), "order": test.order.value, "rejects": test in rejected}
