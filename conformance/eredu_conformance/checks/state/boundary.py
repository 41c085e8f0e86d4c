"""The boundary as an engine's own trace tells it: behind each commit the target's cache has all tokens but the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.forced_pairs import SENSITIVE, forced_pair
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Acceptance, Feature, RunOptions, Schedule, SkippedRunError

QUICK = ("order-2", "window-4")
TOKENS = 14


def checks() -> Iterator[Check]:
    """One check for each sensitive pair."""
    for name in SENSITIVE:
        yield Check(
            id=f"state.cache-length/{name}",
            rule="commit.leading-token-uncached",
            tier=Tier.QUICK if name in QUICK else Tier.STANDARD,
            about="The trace has all committed tokens but the last in the cache, behind each commit and cancellation.",
            needs=Needs(proposals=3, features=frozenset({Feature.TRACES, Feature.SEEDS}), batch=3),
            run=partial(_run, name),
        )


def _run(name: str, session: SubjectSession, seed: int) -> Observation:
    commits = 0
    for acceptance in session.capabilities.acceptance:
        trial = _trial(name, acceptance, session, seed)
        trace = session.result(trial).trace
        if trace is None:
            raise CheckFailure("traces are declared, and the result has none", case=trial.describe())
        commits += check_lengths(trial, trace)
    if commits == 0:
        raise SkippedRunError("its trace has no commit with a cache length")
    return Observation(text=f"{commits} commits and cancellations, the leading token uncached behind each")


def check_lengths(trial: Trial, trace: Sequence[Mapping[str, Any]]) -> int:
    """Follow the tokens of each request through `publish` events; return how many cache lengths were checked."""
    committed = {index: len(request.prompt) for index, request in enumerate(trial.requests)}
    checked = 0
    for number, event in enumerate(trace):
        request = event.get("request")
        if request not in committed or "event" not in event:
            continue
        expected = None
        if event["event"] == "commit":
            expected = committed[request] - 1 + int(event["kept"])
        elif event["event"] == "cancel":
            expected = committed[request] - 1
        elif event["event"] == "publish":
            committed[request] += len(event["tokens"])
        if expected is None or "cache_length" not in event:
            continue
        checked += 1
        if event["cache_length"] != expected:
            raise CheckFailure(
                f"event {number} of the trace, {dict(event)}, tells of a cache of {event['cache_length']}; "
                f"all committed tokens but the last are {expected}",
                history=trial.requests[request].prompt,
                case=trial.describe(),
            )
    return checked


def _trial(name: str, acceptance: Acceptance, session: SubjectSession, seed: int) -> Trial:
    pair = forced_pair(name, 2)
    features = session.capabilities.features
    options = RunOptions(max_tokens=TOKENS, temperature=0.7, max_proposals=3, acceptance=acceptance)
    schedule = Schedule(lookahead=Feature.LOOKAHEAD in features)
    trial = Trial.of(pair, options, schedule=schedule).seeded(seed, f"state.cache-length/{name}", 3)
    if Feature.CANCELLATION not in features:
        return trial
    first, second, third = trial.requests
    return replace(trial, requests=(first, replace(second, cancel_after=4), third))
