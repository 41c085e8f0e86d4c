"""Engines that follow the spec's randomness, address by address: their tokens are the reference's, for every rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.path.cases import RATIO_RULES, addressing_rule
from eredu_conformance.checks.path.options import SAMPLED, SETTINGS, option_trial
from eredu_conformance.checks.reference_twin import ENGINES, differs, reference_answers
from eredu_conformance.checks.shrinking import shrink
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Feature, RunOptions, Schedule

PAIRS = {
    "table": Tier.QUICK,
    "table-near": Tier.QUICK,
    "table-wide": Tier.STANDARD,
    "holes": Tier.STANDARD,
    "order-2": Tier.QUICK,
    "counts": Tier.STANDARD,
    "fading": Tier.STANDARD,
    "position": Tier.STANDARD,
    "window-4": Tier.STANDARD,
    "window-16": Tier.STANDARD,
}
TOKENS, REQUESTS = 20, 2
QUICK_OPTIONS = frozenset({"ban", "penalties-together", "filters-together"})
"""Options that the quick tier asks for."""


def checks() -> Iterator[Check]:
    """One check for each pair, rule and K, and one for each option under the rules that read p and q."""
    for name, tier in PAIRS.items():
        for acceptance in Acceptance.specified():
            for depth in (0, 1, 3):
                yield _check(
                    f"{name}/{acceptance.value}/k{depth}",
                    addressing_rule(acceptance) if depth else "randomness.gumbel-max",
                    tier if depth == 3 else Tier.STANDARD,
                    acceptance,
                    partial(_pair_trial, name, acceptance, depth),
                )
    for option, settings in (SETTINGS | SAMPLED).items():
        for acceptance in RATIO_RULES:
            yield _check(
                f"{option}/{acceptance.value}/k3",
                "draft.recorded-distribution",
                Tier.QUICK if option in QUICK_OPTIONS else Tier.STANDARD,
                acceptance,
                partial(_option_trial, option, settings, acceptance),
                frozenset(settings),
            )


def _check(
    name: str,
    rule: str,
    tier: Tier,
    acceptance: Acceptance,
    trial: Callable[[int], Trial],
    options: frozenset[str] = frozenset(),
) -> Check:
    return Check(
        id=f"path.equals-reference/{name}",
        rule=rule,
        tier=tier,
        about=f"Under {acceptance.value}, tokens are those of the reference at the same addresses, branches or not.",
        needs=Needs(
            engines=ENGINES, features=frozenset({Feature.SEEDS}), acceptance=acceptance, proposals=3, options=options
        ),
        run=partial(_run, trial),
    )


def _pair_trial(name: str, acceptance: Acceptance, depth: int, seed: int) -> Trial:
    pair = crafted_pair(name)
    options = RunOptions(max_tokens=TOKENS, temperature=1.0, max_proposals=depth, acceptance=acceptance)
    return Trial.of(pair, options).seeded(seed, f"path.reference/{name}", REQUESTS)


def _option_trial(option: str, settings: Mapping[str, Any], acceptance: Acceptance, seed: int) -> Trial:
    trial = option_trial("table-eos", {"temperature": 1.0, **settings}, depth=3, acceptance=acceptance)
    return trial.seeded(seed, f"path.reference/{option}", REQUESTS)


def _run(make: Callable[[int], Trial], session: SubjectSession, seed: int) -> Observation:
    """The first request without branches, all of them with; a rounding that decides is taken for what it is."""
    base = make(seed)
    trials = [base]
    if Feature.LOOKAHEAD in session.capabilities.features and base.requests[0].options.max_proposals > 0:
        trials = [base.alone(0), replace(base, schedule=Schedule(lookahead=True))]

    def fails(trial: Trial) -> bool:
        return differs(trial, session) is not None

    for trial in trials:
        if fails(trial):
            raise _failure(shrink(trial, fails, most_attempts=session.shrinking), session)
    compared = sum(request.options.max_tokens for trial in trials for request in trial.requests)
    return Observation(text=f"{compared} tokens equal to the reference's")


def _failure(smallest: Trial, session: SubjectSession) -> CheckFailure:
    found = differs(smallest, session)
    index, place, message = found if found is not None else (0, 0, "they differed once and agree when asked again")
    due = reference_answers(smallest, session)[index].tokens[:place]
    return CheckFailure(
        f"the subject and the reference at the same addresses: {message}",
        history=smallest.requests[index].prompt + due,
        case=smallest.describe(),
    )
