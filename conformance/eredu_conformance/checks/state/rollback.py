"""Rollback after forced partial acceptance: whatever was rejected, the next token is that of the committed ones.

The drafts are wrong at chosen places, so every accepted length occurs; a row that a rejected proposal left behind, or
one that was cut too much, changes the law of the very next token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.forced_pairs import PARTS, SENSITIVE, forced_pair
from eredu_conformance.checks.state.simulation import greedy_rounds
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Feature, RunOptions, Schedule

TOKENS = 30
DEPTHS = {1: Tier.STANDARD, 2: Tier.STANDARD, 3: Tier.QUICK, 4: Tier.STANDARD, 6: Tier.NIGHTLY}


def checks() -> Iterator[Check]:
    """One check for each sensitive pair, K, and lookahead off or on."""
    for name in SENSITIVE:
        for depth, tier in DEPTHS.items():
            for ahead in (False, True):
                yield Check(
                    id=f"state.rollback/{name}/k{depth}" + ("/lookahead" if ahead else ""),
                    rule="rollback.exact-state",
                    tier=max(tier, Tier.STANDARD, key=lambda item: item.rank) if ahead else tier,
                    about="After every accepted length the target's state is that of the committed tokens"
                    + (", beside branches that are dropped and promoted." if ahead else "."),
                    needs=Needs(proposals=depth, features=frozenset({Feature.LOOKAHEAD} if ahead else ())),
                    run=partial(_run, name, depth, ahead),
                )


def _run(name: str, depth: int, ahead: bool, session: SubjectSession, seed: int) -> Observation:  # noqa: FBT001, ARG001
    lengths: Counter[int] = Counter()
    compared = 0
    for part in (None, *PARTS):
        pair = forced_pair(name, part)
        options = RunOptions(max_tokens=TOKENS, max_proposals=depth)
        trial = Trial.of(pair, options, schedule=Schedule(lookahead=ahead))
        compared += require_equal(
            session, trial, greedy_due, what=f"greedy decoding with K = {depth} and the law's argmax"
        )
        rounds = greedy_rounds(pair, pair.prompt, proposals=depth, tokens=TOKENS)
        lengths.update(item.accepted for item in rounds if item.proposed == depth)
    seen = ", ".join(f"{count} of {length}" for length, count in sorted(lengths.items()))
    return Observation(
        text=f"{compared} tokens equal; by the rules, rounds by accepted length: {seen}",
        figures={"rounds_by_length": dict(sorted(lengths.items()))},
    )
