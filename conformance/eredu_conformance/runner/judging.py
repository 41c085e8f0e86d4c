"""Doing one check: whatever happens in it becomes a result."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.protocol import SkippedRunError
from eredu_conformance.runner.result import CheckResult, Outcome


def judge(check: Check, session: SubjectSession, seed: int) -> CheckResult:
    """Do a check on a session."""
    if (reason := check.needs.obstacle(session.capabilities)) is not None:
        return CheckResult.of(check, seed, Outcome.SKIPPED, reason)
    begun, runs, tokens = time.perf_counter(), session.runs, session.tokens
    found: Mapping[str, Any] = {}
    try:
        evidence = check.run(session, seed)
        outcome, message, found = Outcome.PASSED, evidence.text, {"figures": evidence.figures}
    except CheckFailure as failure:
        seen = failure.counterexample
        outcome, message = Outcome.FAILED, seen.message
        found = {"history": seen.history, "case": seen.case, "figures": seen.figures}
    except SkippedRunError as skip:
        outcome, message = Outcome.SKIPPED, skip.reason
    except Exception:  # A check that raises must not end the run.
        outcome, message = Outcome.BROKEN, traceback.format_exc(limit=-6)
    return CheckResult.of(
        check,
        seed,
        outcome,
        message.replace(str(session.directory), "…"),
        elapsed_s=time.perf_counter() - begun,
        runs=session.runs - runs,
        tokens=session.tokens - tokens,
        **found,
    )
