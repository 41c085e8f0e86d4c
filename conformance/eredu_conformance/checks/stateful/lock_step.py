"""Runs of the Hypothesis machine as checks: what it finds is told as the shortest program that it found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.protocol import SkippedRunError

PROGRAMS = {Tier.QUICK: 16, Tier.STANDARD: 40, Tier.NIGHTLY: 400}
STEPS = 25

RULES = {
    "everything": "scheduling.phase-edges",
    "cancelling": "cancellation.leaves-no-trace",
    "failing": "commit.failure-changes-nothing",
    "undisturbed": "scheduling.turn-uninterrupted",
    "plain": "draft.empty-block-is-plain",
}
"""The rule that each machine has most to say about."""


def checks() -> Iterator[Check]:
    """One check for each machine and tier."""
    for name, rule in RULES.items():
        for tier, programs in PROGRAMS.items():
            yield Check(
                id=f"stateful.lock-step/{name}/{programs}",
                rule=rule,
                tier=tier,
                about="Scheduler and machine agree on phases, caches, blocks, events, statistics after every action.",
                needs=Needs(engines=frozenset({"eredu"})),
                run=partial(_run, name, programs),
            )


def _run(name: str, programs: int, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001 (no checkpoint is needed)
    if find_spec("hypothesis") is None:
        raise SkippedRunError("hypothesis is not installed: pip install 'eredu[test]'")
    from eredu_conformance.checks.stateful.running import run_programs  # noqa: PLC0415

    found = run_programs(name, programs=programs, steps=STEPS, seed=seed)
    if found is not None:
        raise CheckFailure(found.message, case={"machine": name, "program": list(found.program)})
    return Observation(
        text=f"{programs} programs of up to {STEPS} actions in lock-step",
        figures={"programs": programs, "steps": STEPS},
    )
