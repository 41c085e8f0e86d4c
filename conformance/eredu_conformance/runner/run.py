"""Conducting a run: the smoke stage, then the checks, in this process or in several.

Checks are independent, so each of several processes opens the subject for itself and takes the next check when it is
done with one. The order of the results is that of the plan.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path

from eredu_conformance.checks.check import Check, Kind
from eredu_conformance.checks.registry import check_named
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.protocol import (
    Blame,
    Capabilities,
    ConformanceError,
    ExpectedFailures,
    smoke,
)
from eredu_conformance.protocol.opening import SubjectSource
from eredu_conformance.runner.following import end_with_parent
from eredu_conformance.runner.judging import judge
from eredu_conformance.runner.plan import Plan
from eredu_conformance.runner.report import Report
from eredu_conformance.runner.result import CheckResult

Progress = Callable[[CheckResult, int, int], None]
"""Told of each result, with how many there are and how many there will be."""


def conduct(
    source: SubjectSource,
    plan: Plan,
    *,
    jobs: int = 1,
    expected: Callable[[Capabilities], ExpectedFailures] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run a plan against a subject.

    Args:
        source: The subject.
        plan: The checks.
        jobs: Processes; 1 stays in this one.
        expected: Gives the adopter's expected failures, once the subject has said who it is.
        progress: Told of each result.

    Raises:
        ConformanceError: the subject can't be opened, the plan is empty, or a process was taken down.
    """
    checks = plan.select()
    begun = time.perf_counter()
    subject = source.open()
    with tempfile.TemporaryDirectory(prefix="eredu-conformance-") as place:
        try:
            smoked = smoke(subject, Path(place) / "smoke")
            if smoked.verdict is Blame.ADAPTER:
                return Report(source=source, plan=plan, smoke=smoked, elapsed_s=time.perf_counter() - begun)
            capabilities = subject.start()
            known = None if expected is None else expected(capabilities)
            if jobs == 1 or len(checks) == 1:
                session = SubjectSession(subject, capabilities, Path(place) / "checks")
                results = _in_turn(checks, session, plan.seed, progress)
            else:
                results = _side_by_side(checks, source, plan.seed, jobs, Path(place), progress)
        finally:
            with suppress(Exception):
                subject.stop()
    return Report(
        source=source,
        plan=plan,
        smoke=smoked,
        capabilities=capabilities,
        results=tuple(results),
        expected=known,
        elapsed_s=time.perf_counter() - begun,
    )


def _in_turn(
    checks: Sequence[Check], session: SubjectSession, seed: int, progress: Progress | None
) -> list[CheckResult]:
    results = []
    for check in checks:
        results.append(judge(check, session, seed))
        if progress is not None:
            progress(results[-1], len(results), len(checks))
    return results


_session: SubjectSession | None = None
"""The session of a worker process."""


def _open_session(source: SubjectSource, place: Path) -> None:
    global _session  # noqa: PLW0603 - a worker process has one subject for its life
    end_with_parent()
    subject = source.open()
    Finalize(None, subject.stop, exitpriority=1)
    _session = SubjectSession(subject, subject.start(), place / f"worker-{os.getpid()}")


def _judge_named(name: str, seed: int) -> CheckResult:
    assert _session is not None, "a worker judges before it was opened"
    return judge(check_named(name), _session, seed)


def _side_by_side(
    checks: Sequence[Check], source: SubjectSource, seed: int, jobs: int, place: Path, progress: Progress | None
) -> list[CheckResult]:
    """Long checks first, so that none of them is left alone at the end."""
    found: dict[str, CheckResult] = {}
    pool = ProcessPoolExecutor(
        max_workers=jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_open_session,
        initargs=(source, place),
    )
    try:
        order = sorted(checks, key=lambda check: check.kind is not Kind.LAW)
        futures = [pool.submit(_judge_named, check.id, seed) for check in order]
        for result in _as_done(futures):
            found[result.id] = result
            if progress is not None:
                progress(result, len(found), len(checks))
    except BrokenProcessPool as error:
        raise ConformanceError(
            f"a process was taken down after {len(found)} of {len(checks)} checks, by the subject or for want of "
            "memory; run with --jobs 1 to see where"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return [found[check.id] for check in checks]


def _as_done(futures: Sequence[Future[CheckResult]]) -> Iterator[CheckResult]:
    pending = set(futures)
    while pending:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
