"""Coupled decoding: the output is a function of target, prompt and seed alone, so it equals plain decoding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair, crafted_pairs
from eredu_conformance.protocol import Acceptance, Feature, RunOptions

TOKENS = 20
DEPTHS = {1: Tier.STANDARD, 2: Tier.QUICK, 3: Tier.STANDARD, 5: Tier.STANDARD, 8: Tier.NIGHTLY}
"""K, and the tier that asks for it."""
SEEDS = {Tier.QUICK: 1, Tier.STANDARD: 2, Tier.NIGHTLY: 12}
"""Requests by the tier of the check."""


def checks() -> Iterator[Check]:
    """One check for each crafted pair and K."""
    for pair in crafted_pairs():
        for depth, tier in DEPTHS.items():
            yield Check(
                id=f"path.coupled-equals-plain/{pair.name}/k{depth}",
                rule="verify.coupled-shared-vector",
                tier=tier,
                about=f"With one seed, coupled decoding with K = {depth} is plain decoding ({pair.aim}).",
                needs=Needs(features=frozenset({Feature.SEEDS}), acceptance=Acceptance.COUPLED, proposals=depth),
                run=partial(_run, pair.name, depth, SEEDS[tier]),
            )


def _run(name: str, depth: int, count: int, session: SubjectSession, seed: int) -> Observation:
    pair = crafted_pair(name)
    options = RunOptions(max_tokens=TOKENS, temperature=1.0, max_proposals=depth, acceptance=Acceptance.COUPLED)
    trial = Trial.of(pair, options).seeded(seed, f"path.coupled/{name}", count)
    compared = require_equal(
        session, trial, session.plain_answers, what=f"coupled decoding with K = {depth} and plain decoding of one seed"
    )
    return Observation(text=f"{compared} tokens equal")
