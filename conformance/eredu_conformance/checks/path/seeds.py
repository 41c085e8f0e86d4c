"""Seeds matter: another seed is another output, and the requests of a call that share a seed are not one output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.path.cases import DEPTH, RULES, label
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Feature, Request, RunOptions

PAIR = "table-wide"
"""64 ids: two independent outputs of `TOKENS` are equal with a chance far below 1e-9."""
TOKENS, REQUESTS = 24, 3


def checks() -> Iterator[Check]:
    """Two checks for each rule that reads randomness."""
    claims: dict[str, tuple[str, Callable[[Acceptance, int], Trial], int]] = {
        "seed-matters": ("requests with different seeds differ", _own_seeds, 1),
        "call-seed-differs-by-request": ("requests that share the call's seed differ", _call_seed, REQUESTS),
    }
    for acceptance in RULES:
        if acceptance is None:
            continue
        for claim, (about, trial, batch) in claims.items():
            yield Check(
                id=f"path.{claim}/{label(acceptance)}",
                rule="randomness.address-to-key",
                about=f"Under {label(acceptance)} decoding, {about}.",
                needs=Needs(features=frozenset({Feature.SEEDS}), acceptance=acceptance, proposals=DEPTH, batch=batch),
                run=partial(_run, acceptance, trial),
            )


def _own_seeds(acceptance: Acceptance, seed: int) -> Trial:
    trial = _call_seed(acceptance, seed)
    return replace(trial.seeded(seed, "path.seed-matters", REQUESTS), seed=None)


def _call_seed(acceptance: Acceptance, seed: int) -> Trial:
    pair = crafted_pair(PAIR)
    options = RunOptions(max_tokens=TOKENS, temperature=1.0, max_proposals=DEPTH, acceptance=acceptance)
    requests = (Request(prompt=pair.prompt, options=options),) * REQUESTS
    return Trial(pair=pair, requests=requests, seed=root(seed, "path.call-seed"))


def _run(
    acceptance: Acceptance, make: Callable[[Acceptance, int], Trial], session: SubjectSession, seed: int
) -> Observation:
    trial = make(acceptance, seed)
    outputs = [answer.tokens for answer in session.answers(trial)]
    if len(set(outputs)) < len(outputs):
        raise CheckFailure(
            f"two of {REQUESTS} requests gave the same {TOKENS} tokens: {[list(o) for o in outputs]}",
            history=trial.requests[0].prompt,
            case=trial.describe(),
        )
    return Observation(text=f"{REQUESTS} outputs of {TOKENS} tokens, all different")
