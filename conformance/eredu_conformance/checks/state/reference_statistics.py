"""Statistics against the reference's: what was drafted, accepted, promoted, reused and thrown away, counter by counter.

Tokens alone cannot show a branch that was kept or dropped by mistake, nor an adaptive decision taken too late;
counters do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.reference_twin import COUNTERS, ENGINES, different_statistics, differs
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Feature, RunOptions, Schedule

PAIRS = {"table-equal": Tier.QUICK, "table-near": Tier.QUICK, "table-eos": Tier.STANDARD, "counts": Tier.STANDARD}
RULES = (None, *Acceptance.specified())
TOKENS, DEPTH, REQUESTS = 26, 3, 2
SHORT_BRANCH, MANY_REQUESTS = 2, 8
"""Branches of a guess and one more, and requests enough for windows in which what was wasted decides."""

SCHEDULES = {
    "off": ("statistics.committed-rounds-only", Schedule()),
    "lookahead": ("promotion.consume-one-reuse-the-rest", Schedule(lookahead=True)),
    "adaptive": (
        "adaptive.disable-when-unpaid",
        Schedule(lookahead=True, adaptive_lookahead=True, adaptive_window=2),
    ),
    "short-branches": (
        "adaptive.planned-not-drawn",
        Schedule(lookahead=True, adaptive_lookahead=True, adaptive_window=3),
    ),
}
"""Rule and schedule by name."""


def checks() -> Iterator[Check]:
    """One check for each pair, rule and schedule."""
    for name, tier in PAIRS.items():
        for acceptance in RULES:
            for schedule, (rule, _) in SCHEDULES.items():
                label = acceptance.value if acceptance else "greedy"
                ahead = set() if schedule == "off" else {Feature.LOOKAHEAD}
                yield Check(
                    id=f"state.statistics-equal-reference/{name}/{label}/{schedule}",
                    rule=rule,
                    tier=tier,
                    about=f"Under {label} decoding, every counter is the reference's (lookahead: {schedule}).",
                    needs=Needs(
                        engines=ENGINES,
                        features=frozenset({Feature.SEEDS, Feature.STATISTICS} | ahead),
                        acceptance=acceptance,
                        proposals=DEPTH,
                    ),
                    run=partial(_run, name, acceptance, schedule),
                )


def _run(name: str, acceptance: Acceptance | None, schedule: str, session: SubjectSession, seed: int) -> Observation:
    pair = crafted_pair(name)
    ends = () if pair.target.eos is None else (pair.target.eos,)
    options = RunOptions(
        max_tokens=TOKENS,
        temperature=1.0 if acceptance else 0.0,
        max_proposals=DEPTH,
        acceptance=acceptance,
        eos_ids=ends,
    )
    count = REQUESTS
    if schedule == "short-branches":
        options, count = replace(options, lookahead_depth=SHORT_BRANCH), MANY_REQUESTS
    drawn = f"state.books/{name}"  # a name of draws, not of things: under another one three faults meet no witness
    trial = Trial.of(pair, options, schedule=SCHEDULES[schedule][1]).seeded(seed, drawn, count)
    found = differs(trial, session, different_statistics)
    if found is not None:
        index, place, message = found
        smallest = trial.alone(index)
        raise CheckFailure(
            f"the subject and the reference at the same addresses: {message}",
            history=pair.prompt,
            case=smallest.describe(),
            figures={"output_position": place},
        )
    return Observation(text=f"{count} statistics with {len(COUNTERS)} counters equal to the reference's")
