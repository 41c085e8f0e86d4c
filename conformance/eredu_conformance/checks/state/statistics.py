"""Statistics: counters that balance and that tell the rounds there were; a drafter whose state drifts shows in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import first_difference, greedy_due
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.forced_pairs import PARTS, SENSITIVE, forced_pair
from eredu_conformance.checks.state.simulation import greedy_rounds
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Answer, Feature, RunOptions, Schedule, SkippedRunError

TOKENS = 26
DEPTHS = {1: Tier.STANDARD, 3: Tier.QUICK, 4: Tier.STANDARD}

BALANCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "statistics.proposals-balance": (("drafted",), ("accepted", "rejected", "unexamined")),
    "statistics.emitted-balance": (("emitted",), ("accepted", "target_tokens")),
    "statistics.lookahead-balance": (
        ("lookahead_drafted",),
        ("lookahead_consumed", "lookahead_reused", "lookahead_discarded"),
    ),
}
"""Counters whose sums must be equal, by rule."""


def checks() -> Iterator[Check]:
    """Acceptance of drafts that are right and wrong at chosen places, and balances under every rule."""
    for name in SENSITIVE:
        for depth, tier in DEPTHS.items():
            yield Check(
                id=f"state.drafter-frontier/{name}/k{depth}",
                rule="rollback.drafter-follows",
                tier=tier,
                about="Under greedy decoding as many proposals are accepted as the two laws agree on.",
                needs=Needs(proposals=depth, features=frozenset({Feature.STATISTICS})),
                run=partial(_accepted, name, depth),
            )
    for rule, (left, right) in BALANCES.items():
        for acceptance in Acceptance:
            ahead = {Feature.LOOKAHEAD} if "lookahead" in rule else set()
            yield Check(
                id=f"state.statistics/{rule.partition('.')[2]}/{acceptance.value}",
                rule=rule,
                about=f"In every answer, {' + '.join(left)} = {' + '.join(right)}.",
                needs=Needs(
                    proposals=3, acceptance=acceptance, features=frozenset({Feature.STATISTICS, Feature.SEEDS} | ahead)
                ),
                run=partial(_balance, rule, acceptance),
            )


def _accepted(name: str, depth: int, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    """An engine may clip its last round at the budget itself instead of one below it: both counts are right."""
    seen = 0
    for part in (None, *PARTS):
        pair = forced_pair(name, part)
        trial = Trial.of(pair, RunOptions(max_tokens=TOKENS, max_proposals=depth))
        answers = session.answers(trial)
        if first_difference(answers, greedy_due(trial)) is not None:
            raise SkippedRunError("its output is not the law's, so its count of accepted proposals says nothing")
        statistics = _statistics(answers, trial)[0]
        rounds = greedy_rounds(pair, pair.prompt, proposals=depth, tokens=TOKENS)
        due = sum(item.accepted for item in rounds)
        if not due <= int(statistics["accepted"]) <= due + 1:
            raise CheckFailure(
                f"{statistics['accepted']} proposals accepted where the laws agree on {due} "
                f"({pair.name}, K = {depth}): the drafter's state is not that of the committed tokens",
                history=pair.prompt,
                case=trial.describe(),
            )
        seen += due
    return Observation(text=f"{seen} proposals accepted, as the laws agree", figures={"accepted": seen})


def _balance(rule: str, acceptance: Acceptance, session: SubjectSession, seed: int) -> Observation:
    left, right = BALANCES[rule]
    pair = crafted_pair("table-near")
    options = RunOptions(max_tokens=14, temperature=1.0, max_proposals=3, acceptance=acceptance)
    schedule = Schedule(lookahead=Feature.LOOKAHEAD in session.capabilities.features)
    trial = Trial.of(pair, options, schedule=schedule).seeded(seed, f"state.statistics/{rule}", 3)
    for index, statistics in enumerate(_statistics(session.answers(trial), trial)):
        if absent := sorted({*left, *right} - statistics.keys()):
            raise SkippedRunError(f"its statistics have no {', '.join(absent)}")
        if sum(statistics[name] for name in left) != sum(statistics[name] for name in right):
            counters = {name: statistics[name] for name in (*left, *right)}
            raise CheckFailure(f"the statistics of request {index} do not balance: {counters}", case=trial.describe())
    return Observation(text=f"{len(trial.requests)} statistics balance")


def _statistics(answers: Sequence[Answer], trial: Trial) -> list[Mapping[str, Any]]:
    statistics = [answer.statistics for answer in answers]
    found = [item for item in statistics if item is not None]
    if len(found) != len(statistics):
        raise CheckFailure("statistics are declared, and an answer has none", case=trial.describe())
    return found
