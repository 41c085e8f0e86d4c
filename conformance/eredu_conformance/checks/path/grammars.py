"""Grammars: masks on every row, completion at every place of a block, rejected proposals that advance nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Feature, Grammar, Request, RunOptions

PAIRS = {"table": Tier.QUICK, "order-2": Tier.STANDARD, "disjoint": Tier.STANDARD}
DEPTHS = (0, 1, 2, 3)
LONGEST = 8


def chain(length: int, ids: tuple[int, ...]) -> Grammar:
    """Any `length` of the ids, then complete."""
    return (*(tuple((token, state + 1) for token in ids) for state in range(length)), ())


def alternating(length: int, ids: tuple[int, ...]) -> Grammar:
    """`length` of the ids, then complete; each place forbids another one, so that no two rows have the same mask."""
    places = (tuple(token for token in ids if token != ids[place % len(ids)]) or ids for place in range(length))
    return (*(tuple((token, place + 1) for token in legal) for place, legal in enumerate(places)), ())


def triggered(vocabulary: int, trigger: int, then: tuple[int, ...]) -> Grammar:
    """Anything until `trigger`; behind it the ids of `then` in any order until one of them repeats the first."""
    free = tuple((token, 1 if token == trigger else 0) for token in range(vocabulary))
    bound = tuple((token, 2 if token == then[0] else 1) for token in then)
    last = tuple((token, 3) for token in then)
    return (free, bound, last, ())


def grammars(vocabulary: int, ids: tuple[int, ...]) -> tuple[Grammar, ...]:
    """Chains that complete at every place of two blocks, one whose rows differ, and grammars that start inside one."""
    chains = tuple(chain(length, ids) for length in range(1, LONGEST))
    return (*chains, alternating(LONGEST, ids), *(triggered(vocabulary, token, ids) for token in ids))


def checks() -> Iterator[Check]:
    """One check for each pair, K and way to decode."""
    for name, tier in PAIRS.items():
        for depth in DEPTHS:
            for acceptance in (None, Acceptance.COUPLED):
                label = acceptance.value if acceptance else "greedy"
                if depth == 0 and acceptance:
                    continue
                yield Check(
                    id=f"path.grammar/{name}/{label}/k{depth}",
                    rule="constraints.mask-on-every-row" if acceptance else "constraints.drafting-stops-at-completion",
                    tier=tier if depth in {0, 2} else Tier.STANDARD,
                    about=f"Under {label} decoding with K = {depth} a grammar masks every row and ends where complete.",
                    needs=Needs(
                        options=frozenset({"grammar"}),
                        features=frozenset({Feature.SEEDS} if acceptance else ()),
                        acceptance=acceptance,
                        proposals=depth,
                    ),
                    run=partial(_run, name, acceptance, depth),
                )


def grammar_trial(name: str, acceptance: Acceptance | None, depth: int, seed: int) -> Trial:
    """Every grammar of a pair, one request each."""
    pair = crafted_pair(name)
    ids = tuple(int(x) for x in (pair.target.next_distribution(pair.prompt) > 0).nonzero()[0])[1:4]
    options = RunOptions(
        max_tokens=14, max_proposals=depth, acceptance=acceptance, temperature=1.0 if acceptance else 0.0
    )
    requests = tuple(
        Request(
            prompt=pair.prompt,
            options=replace(
                options, grammar=grammar, seed=root(seed, f"path.grammar/{name}", index) if acceptance else None
            ),
        )
        for index, grammar in enumerate(grammars(pair.target.vocabulary, ids))
    )
    return Trial(pair=pair, requests=requests)


def _run(name: str, acceptance: Acceptance | None, depth: int, session: SubjectSession, seed: int) -> Observation:
    trial = grammar_trial(name, acceptance, depth, seed)
    due = session.plain_answers if acceptance else greedy_due
    compared = require_equal(session, trial, due, what=f"a grammar with K = {depth} and without proposals")
    return Observation(text=f"{len(trial.requests)} grammars, {compared} tokens equal")
