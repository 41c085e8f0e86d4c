"""Greedy decoding takes the most probable id, whatever K and whatever the drafter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import CheckpointPair, crafted_pair, crafted_pairs
from eredu_conformance.protocol import RunOptions

TOKENS = 24
DEPTHS = {0: Tier.QUICK, 1: Tier.STANDARD, 2: Tier.STANDARD, 3: Tier.QUICK, 5: Tier.STANDARD, 8: Tier.NIGHTLY}
"""K, and the tier that asks for it."""


def checks() -> Iterator[Check]:
    """One check for each crafted pair and K."""
    for pair in crafted_pairs():
        for depth, tier in DEPTHS.items():
            yield Check(
                id=f"path.greedy-is-argmax/{pair.name}/k{depth}",
                rule=_rule(pair, depth),
                tier=tier,
                about=f"At temperature 0 with K = {depth} the output is the law's own argmax ({pair.aim}).",
                needs=Needs(proposals=depth),
                run=partial(_run, pair.name, depth),
            )


def _rule(pair: CheckpointPair, depth: int) -> str:
    """What a failure points at: behind a sliding window, greedy decoding goes wrong by its cache."""
    if depth == 0:
        return "draft.empty-block-is-plain"
    return "rollback.exact-state" if pair.target.window else "verify.greedy-argmax"


def _run(name: str, depth: int, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    pair = crafted_pair(name)
    trial = Trial.of(pair, RunOptions(max_tokens=TOKENS, max_proposals=depth))
    count = require_equal(session, trial, greedy_due, what=f"greedy decoding with K = {depth} and the law's argmax")
    return Observation(text=f"{count} tokens equal")
