"""Laws by sampling: many short requests, their joint laws and the laws of their tokens against the exact ones.

Each check makes three G-tests (the first three tokens, the last three, every token in its context) and rejects a
right engine with a chance of at most `ALPHA` in all. A run of everything has fewer than `CHECKS_MAX` of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.expected_output import ExpectedOutput
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.law.expected_law import ExpectedLaw, Output
from eredu_conformance.checks.law.likelihood_ratio import TestResult, likelihood_ratio_test
from eredu_conformance.checks.law_pairs import law_pairs
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Acceptance, Feature, Request, RunOptions, Schedule

ALPHA = 1e-8
"""Chance that one check rejects a right engine."""
CHECKS_MAX = 100
"""Bound on the checks of one run, so that a whole run errs with a chance of at most 1e-6."""
BATCH = 64
"""Requests of one run."""
SAMPLES = {Tier.QUICK: 192, Tier.STANDARD: 480, Tier.NIGHTLY: 6400}
"""Requests by the tier of the check."""

_FILTERS: Mapping[str, Any] = {"temperature": 0.6, "top_p": 0.9, "logit_bias": ((1, 0.7),)}
_PENALTIES: Mapping[str, Any] = {"repetition_penalty": 1.5, "repeat_last_n": 3}


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is sampled.

    Attributes:
        pair: Name of a law pair.
        acceptance: The rule.
        proposals: K.
        ahead: Whether branches are drafted.
        label: Names the options in the id.
        options: Options besides temperature 1.
        length: Tokens of an output.
        tier: The smallest tier that samples it.
        seeded: Whether requests have seeds of their own; else the call has one.
    """

    pair: str
    acceptance: Acceptance
    proposals: int
    ahead: bool = False
    label: str = "t1"
    options: Mapping[str, Any] = field(default_factory=dict)
    length: int = 6
    tier: Tier = Tier.STANDARD
    seeded: bool = True

    @property
    def name(self) -> str:
        """The end of the check's id."""
        ahead = "/lookahead" if self.ahead else ""
        return f"{self.pair}/{self.label}/{self.acceptance.value}/k{self.proposals}{ahead}"

    @cached_property
    def request(self) -> Request:
        """The request, before it has a seed."""
        settings = {"temperature": 1.0, "max_tokens": self.length, **self.options}
        options = RunOptions(max_proposals=self.proposals, acceptance=self.acceptance, **settings)
        return Request(prompt=law_pairs()[self.pair].prompt, options=options)

    @cached_property
    def expected(self) -> ExpectedLaw:
        """The exact law."""
        return ExpectedLaw(ExpectedOutput(law_pairs()[self.pair].target, self.request))


def designs() -> Iterator[Design]:
    """Every rule on every law, with and without branches, under filters and penalties, and to the end of an output."""
    for acceptance in Acceptance:
        # A coupled output is plain decoding's, token for token: the path checks show it, and few samples do.
        tier = Tier.NIGHTLY if acceptance is Acceptance.COUPLED else Tier.STANDARD
        common: Mapping[str, Any] = {"acceptance": acceptance, "proposals": 2, "tier": tier}
        first = Tier.STANDARD if acceptance is Acceptance.COUPLED else Tier.QUICK
        for pair in ("law-even", "law-sure"):
            yield Design(**{**common, "tier": first}, pair=pair)
        for pair in ("law-order-2", "law-zeros", "law-counts", "law-window", "law-position"):
            yield Design(pair=pair, **common)
        yield Design(pair="law-near", ahead=True, length=8, **common)
        yield Design(pair="law-order-2", label="filters", options=_FILTERS, **common)
        yield Design(pair="law-near", label="penalties", options=_PENALTIES, **common)
        yield Design(pair="law-order-2", label="eos", options={"eos_ids": (1,)}, ahead=True, **common)
        yield Design(**{**common, "tier": Tier.NIGHTLY}, pair="law-near", label="call-seed", seeded=False)
        yield Design(pair="law-near", label="deep", length=7, acceptance=acceptance, proposals=5, tier=Tier.NIGHTLY)


def checks() -> Iterator[Check]:
    """One check for each design, and a second one with a large sample."""
    for design in designs():
        for tier in dict.fromkeys((design.tier, Tier.NIGHTLY)):
            yield _check(design, tier)


def _check(design: Design, tier: Tier) -> Check:
    samples = SAMPLES[tier]
    features = ({Feature.LOOKAHEAD} if design.ahead else set()) | (set() if design.seeded else {Feature.SEEDS})
    if "window" in design.pair:
        features.add(Feature.SLIDING_WINDOW)
    return Check(
        id=f"law.joint/{design.name}/n{samples}",
        rule="verify.same-law",
        tier=tier,
        about=f"{samples} outputs of {design.length} tokens are distributed as plain decoding's ({design.label}).",
        needs=Needs(
            features=frozenset(features),
            acceptance=design.acceptance,
            proposals=design.proposals,
            options=frozenset(design.options) | {"temperature"},
            protocol_semantics=True,
        ),
        run=partial(_run, design, samples),
    )


def sample(design: Design, samples: int, session: SubjectSession, seed: int) -> list[Output]:
    """Outputs of independent requests."""
    found: list[Output] = []
    seeds = Feature.SEEDS in session.capabilities.features
    schedule = Schedule(lookahead=design.ahead)
    for first in range(0, samples, BATCH):
        count = min(BATCH, samples - first)
        requests = tuple(
            replace(design.request, options=replace(design.request.options, seed=_seed(design, seed, index)))
            if seeds and design.seeded
            else design.request
            for index in range(first, first + count)
        )
        call = root(seed, f"law/{design.name}/call", first) if seeds and not design.seeded else None
        trial = Trial(pair=law_pairs()[design.pair], requests=requests, schedule=schedule, seed=call)
        found += [answer.tokens for answer in session.answers(trial)]
    return found


def judge(design: Design, outputs: list[Output]) -> list[TestResult]:
    """The tests of a sample; their levels add up to `ALPHA`."""
    law = design.expected
    alpha = ALPHA / (len(law.windows) + 1)
    tests = [
        likelihood_ratio_test(f"tokens {start} to {start + 2} jointly", [law.window_stratum(start, outputs)], alpha)
        for start in law.windows
    ]
    return [*tests, likelihood_ratio_test("each token in its context", law.context_strata(outputs), alpha)]


def _seed(design: Design, seed: int, index: int) -> int:
    return root(seed, f"law/{design.name}", index)


def _run(design: Design, samples: int, session: SubjectSession, seed: int) -> Observation:
    outputs = sample(design, samples, session, seed)
    prompt = design.request.prompt
    case = {"pair": design.pair, "design": design.name, "samples": samples}
    impossible = design.expected.impossible(outputs)
    if impossible is not None:
        raise CheckFailure(f"the output {list(impossible)} has probability 0", history=prompt + impossible, case=case)
    tests = judge(design, outputs)
    figures = {
        test.name: {
            "g": round(test.statistic, 3),
            "degrees": test.degrees,
            "samples": test.samples,
            "p_value": test.p_value,
            "false_fail": test.alpha,
            "resolves_total_variation": round(test.resolves, 4),
        }
        for test in tests
    }
    if rejecting := [test for test in tests if test.rejects]:
        test = rejecting[0]
        raise CheckFailure(
            f"{test.name}: G = {test.statistic:.1f} on {test.degrees} degrees of freedom, "
            f"p = {test.p_value:.2g}, below {test.alpha:.2g}; a right engine fails this check with a chance "
            f"of {ALPHA:.0e}",
            history=prompt,
            case=case,
            figures=figures,
        )
    finest = min(tests, key=lambda test: test.resolves)
    return Observation(
        text=f"{samples} outputs fit; false alarm {ALPHA:.0e}, resolves a total variation of {finest.resolves:.2f} "
        f"({finest.name}), least p {min(test.p_value for test in tests):.2g}",
        figures=figures,
    )
