"""The replay of a subject's trace: every event is a step that the machine allows, and says what the answers say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.shrinking import shrink
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trace.situations import DEPTH, SITUATIONS, Situation
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Acceptance, Answer, Feature, RunResult
from eredu_spec.trace import TraceFormError, check

RULES: tuple[Acceptance | None, ...] = (None, *Acceptance.specified())
QUICK_RULES = (None, Acceptance.REJECTION)
SHORT_DRAFT = "table-near-short-draft"
PAIRS = {"table-near": Tier.QUICK, "order-2": Tier.STANDARD, "table-equal": Tier.STANDARD}


def checks() -> Iterator[Check]:
    """One check for each pair, situation and rule of acceptance; branches also beside a draft of a short context."""
    cases = [(name, tier, situation) for name, tier in PAIRS.items() for situation in SITUATIONS]
    (ahead,) = (situation for situation in SITUATIONS if situation.name == "lookahead")
    for name, tier, situation in (*cases, (SHORT_DRAFT, Tier.QUICK, ahead)):
        for acceptance in RULES:
            label = acceptance.value if acceptance else "greedy"
            yield Check(
                id=f"trace.{situation.name}/{name}/{label}",
                rule=situation.rule,
                tier=tier if acceptance in QUICK_RULES else max(tier, Tier.STANDARD, key=lambda each: each.rank),
                about=f"The trace of the situation '{situation.name}' is a run of the machine of the spec.",
                needs=Needs(
                    features=situation.features | {Feature.TRACES, Feature.SEEDS},
                    options=situation.settings,
                    acceptance=acceptance,
                    proposals=DEPTH,
                    batch=situation.count,
                ),
                run=partial(_run, name, situation, acceptance),
            )


def _run(
    name: str, situation: Situation, acceptance: Acceptance | None, session: SubjectSession, seed: int
) -> Observation:
    trial = situation.trial(name, acceptance, seed)
    result = session.result(trial)
    broken = finding_of(result, ring=situation.ring)
    if broken is None:
        return Observation(text=f"{len(result.trace or ())} events follow the machine")

    def fails(smaller: Trial) -> bool:
        return finding_of(session.result(smaller), ring=situation.ring) is not None

    smallest = shrink(trial, fails, most_attempts=session.shrinking)
    broken = finding_of(session.result(smallest), ring=situation.ring) or broken
    raise CheckFailure(broken, history=smallest.requests[0].prompt, case=smallest.describe())


def finding_of(result: RunResult, *, ring: bool) -> str | None:
    """The first thing that is wrong with a result's trace, in words; None if nothing is."""
    if result.trace is None:
        return "traces are declared, and the result has none"
    events = [dict(event) for event in result.trace]
    try:
        finding = check(events, ring=ring, is_complete=True)
    except TraceFormError as error:
        return f"the trace is not written as trace.md says: {error}"
    if finding is not None:
        turn = events[finding.index]["turn"] if finding.index < len(events) else "none"
        return f"turn {turn}, {finding}"
    return _difference(events, result.answers)


def _difference(events: Sequence[Mapping[str, Any]], answers: Sequence[Answer]) -> str | None:
    """Where the trace tells another story than the answers."""
    for number, answer in enumerate(answers):
        own = [event for event in events if event["request"] == number]
        told = [token for event in own if event["event"] == "publish" for token in event["tokens"]]
        if told != list(answer.tokens):
            return f"request {number} published {told} by its trace and {list(answer.tokens)} by its answer"
        if not own:
            return f"request {number} was answered, and the trace does not know it"
        finish = own[-1]["finish"]
        if finish != answer.finish.value:
            return f"request {number} ended with {finish} by its trace and {answer.finish.value} by its answer"
        statistics = answer.statistics or {}
        for name, count in own[-1]["statistics"].items():
            if statistics.get(name, count) != count:
                return f"request {number} has {name} = {count} by its trace and {statistics[name]} by its answer"
    return None
