"""Every generation option crossed with speculation: the option with a drafter is the option without.

At temperature 0 the answer is also the law's own; there an option that an engine ignores is found even if it ignores
it on every path. Under `coupled` the answer is plain decoding's with the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Feature, Request, RunOptions

Settings = Mapping[str, Any]

SETTINGS: dict[str, Settings] = {
    "logit-bias": {"logit_bias": ((1, 1.5), (3, -2.0))},
    "ban": {"logit_bias": ((2, -1e9),)},
    "repetition-penalty": {"repetition_penalty": 2.5, "repeat_last_n": 0},
    "repetition-window": {"repetition_penalty": 3.0, "repeat_last_n": 2},
    "frequency-penalty": {"frequency_penalty": 0.8},
    "presence-penalty": {"presence_penalty": 1.5},
    "penalties-together": {
        "repetition_penalty": 1.6,
        "repeat_last_n": 5,
        "frequency_penalty": 0.4,
        "presence_penalty": 0.7,
        "logit_bias": ((0, 0.6),),
    },
}
"""Options that move the greedy path."""

SAMPLED: dict[str, Settings] = {
    "top-k": {"top_k": 2},
    "top-p": {"top_p": 0.7},
    "min-p": {"min_p": 0.3},
    "cold": {"temperature": 0.4},
    "hot": {"temperature": 2.5},
    "filters-together": {"top_k": 3, "top_p": 0.9, "min_p": 0.05, "temperature": 1.4},
}
"""Options that only a temperature above 0 shows."""

PAIRS = {"table-near": Tier.QUICK, "table-eos": Tier.STANDARD, "counts": Tier.STANDARD}
"""Pairs, and the tier that asks for them; the logits of `table-eos` have both signs, which a penalty tests."""
DEPTHS = (0, 2, 3)
TOKENS = 18
PROMPT_TAIL = 3
"""Output tokens that the prompt is lengthened by, so that a penalty has a prompt to look at."""

_RULES = {
    "repetition-penalty": "verify.rows-see-prefix",
    "repetition-window": "verify.rows-see-prefix",
    "frequency-penalty": "verify.rows-see-prefix",
    "presence-penalty": "verify.rows-see-prefix",
    "penalties-together": "verify.rows-see-prefix",
}


def checks() -> Iterator[Check]:
    """One check for each pair, option and way to decode."""
    for name, tier in PAIRS.items():
        for option, settings in SETTINGS.items():
            yield _greedy(name, option, settings, tier)
        for option, settings in (SETTINGS | SAMPLED).items():
            yield _coupled(name, option, settings, tier)


def option_trial(name: str, settings: Settings, *, depth: int, **others: Any) -> Trial:
    """A trial of a pair under some options."""
    pair = crafted_pair(name)
    prompt = pair.prompt + pair.target.greedy_path(pair.prompt, PROMPT_TAIL)
    options = RunOptions(**{"max_tokens": TOKENS, "max_proposals": depth, **others, **settings})
    return Trial(pair=pair, requests=(Request(prompt=prompt, options=options),))


def _greedy(name: str, option: str, settings: Settings, tier: Tier) -> Check:
    return Check(
        id=f"path.option-with-drafter/{option}/{name}/greedy",
        rule=_RULES.get(option, "verify.processed-order"),
        tier=tier,
        about=f"Greedy decoding under '{option}' takes the argmax of the processed rows, with and without proposals.",
        needs=Needs(options=frozenset(settings), proposals=max(DEPTHS)),
        run=partial(_run_greedy, name, settings),
    )


def _coupled(name: str, option: str, settings: Settings, tier: Tier) -> Check:
    return Check(
        id=f"path.option-with-drafter/{option}/{name}/coupled",
        rule=_RULES.get(option, "verify.processed-order"),
        tier=tier,
        about=f"Coupled decoding under '{option}' gives the tokens of plain decoding under '{option}'.",
        needs=Needs(
            options=frozenset(settings),
            features=frozenset({Feature.SEEDS}),
            acceptance=Acceptance.COUPLED,
            proposals=max(DEPTHS),
        ),
        run=partial(_run_coupled, name, option, settings),
    )


def _run_greedy(name: str, settings: Settings, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    own = sorted(settings.keys() & session.capabilities.own_semantics.keys())
    compared = 0
    for depth in DEPTHS:
        if own and depth == 0:
            continue
        trial = option_trial(name, settings, depth=depth)
        due = session.plain_answers if own else greedy_due
        other = "the subject's own plain decoding" if own else "the law's argmax"
        compared += require_equal(session, trial, due, what=f"greedy decoding with K = {depth} and {other}")
    against = f"the subject's own plain decoding (its {own[0]} is its own)" if own else "the law"
    return Observation(text=f"{compared} tokens equal to {against}")


def _run_coupled(name: str, option: str, settings: Settings, session: SubjectSession, seed: int) -> Observation:
    compared = 0
    for depth in DEPTHS[1:]:
        sampled = {"temperature": 1.0, **settings}
        trial = option_trial(name, sampled, depth=depth, acceptance=Acceptance.COUPLED)
        request = trial.requests[0]
        seeded = replace(request.options, seed=root(seed, f"path.option/{option}/{name}"))
        trial = replace(trial, requests=(replace(request, options=seeded),))
        compared += require_equal(
            session,
            trial,
            session.plain_answers,
            what=f"coupled decoding with K = {depth} and plain decoding of one seed",
        )
    return Observation(text=f"{compared} tokens equal")
