"""Laws by exact enumeration, for subjects that take injected randomness: every outcome of every decision, weighted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.expected_output import ExpectedOutput
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.law_pairs import law_pairs
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Acceptance, Feature, Request, RunOptions, Schedule, SubjectError, output_law

TOLERANCE = 1e-9
"""Total variation that is still the rounding of weights."""
MOST_RUNS = 60_000


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is enumerated: a pair, K, tokens, options, and whether branches are drafted."""

    pair: str
    proposals: int
    length: int
    label: str = "t1"
    options: Mapping[str, Any] = field(default_factory=dict)
    ahead: bool = False
    tier: Tier = Tier.STANDARD


DESIGNS = (
    Design(pair="law-zeros", proposals=2, length=3, tier=Tier.QUICK),
    Design(pair="law-order-2", proposals=2, length=3, tier=Tier.QUICK),
    Design(pair="law-order-2", proposals=1, length=4, tier=Tier.NIGHTLY),
    Design(pair="law-zeros", proposals=1, length=4, ahead=True),
    Design(pair="law-zeros", proposals=2, length=4, tier=Tier.NIGHTLY),
    Design(
        pair="law-order-2",
        proposals=2,
        length=3,
        label="filters",
        options={"temperature": 0.6, "logit_bias": ((1, 1),)},
    ),
    Design(pair="law-zeros", proposals=2, length=3, label="penalties", options={"frequency_penalty": 0.7}),
    Design(pair="law-zeros", proposals=2, length=4, label="eos", options={"eos_ids": (1,)}),
)


def checks() -> Iterator[Check]:
    """One check for each rule and design."""
    for acceptance in Acceptance:
        for design in DESIGNS:
            ahead = "/lookahead" if design.ahead else ""
            yield Check(
                id=f"law.exact/{design.pair}/{design.label}/{acceptance.value}"
                f"/k{design.proposals}/t{design.length}{ahead}",
                rule="verify.same-law",
                tier=design.tier,
                about=f"The exact law of {design.length} tokens with K = {design.proposals} is that of plain decoding.",
                needs=Needs(
                    features=frozenset({Feature.CHOICES} | ({Feature.LOOKAHEAD} if design.ahead else set())),
                    acceptance=acceptance,
                    proposals=design.proposals,
                    options=frozenset(design.options) | {"temperature"},
                    protocol_semantics=True,
                ),
                run=partial(_run, design, acceptance),
            )


def _run(design: Design, acceptance: Acceptance, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    pair = law_pairs()[design.pair]
    settings = {"temperature": 1.0, "max_tokens": design.length, **design.options}
    options = RunOptions(max_proposals=design.proposals, acceptance=acceptance, **settings)
    request = Request(prompt=pair.prompt, options=options)
    trial = Trial(pair=pair, requests=(request,), schedule=Schedule(lookahead=design.ahead))
    expected = ExpectedOutput(pair.target, request).law()
    try:
        law = output_law(session.subject, session.capabilities, trial.run(session.place(pair)), most_runs=MOST_RUNS)
    except SubjectError as error:
        raise CheckFailure(
            f"no law could be enumerated: {error}", history=pair.prompt, case=trial.describe()
        ) from error
    gaps = {output: law.get(output, 0.0) - expected.get(output, 0.0) for output in {*law, *expected}}
    variation = sum(map(abs, gaps.values())) / 2
    if variation > TOLERANCE:
        worst = max(gaps, key=lambda output: abs(gaps[output]))
        raise CheckFailure(
            f"total variation {variation:.3g} from plain decoding; the output {list(worst)} has "
            f"probability {law.get(worst, 0.0):.6g}, due {expected.get(worst, 0.0):.6g}",
            history=pair.prompt + worst,
            case=trial.describe(),
            figures={"total_variation": variation},
        )
    return Observation(
        text=f"{len(law)} outputs enumerated, total variation {variation:.1e}", figures={"total_variation": variation}
    )
