"""The requests that switches are thrown on, and the ways in which they are decoded."""

from __future__ import annotations

from dataclasses import replace

from eredu_conformance.checks.check import Tier
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Request, RunOptions

PAIRS = {"table-near": Tier.QUICK, "order-2": Tier.STANDARD, "counts": Tier.NIGHTLY, "window-4": Tier.STANDARD}
"""Pairs, and the tier that asks for them: high acceptance, the order of rows, their counts, a sliding window."""
RULES = (None, *Acceptance)
"""Acceptance rules; None is greedy decoding."""
RATIO_RULES = tuple(rule for rule in Acceptance.specified() if rule is not Acceptance.COUPLED)
"""Rules of the spec that compare p and q at a proposal."""
DEPTH, TOKENS, REQUESTS = 3, 18, 3


def label(acceptance: Acceptance | None) -> str:
    """The rule in an id."""
    return acceptance.value if acceptance else "greedy"


_ADDRESSING = {
    None: "randomness.greedy-reads-none",
    Acceptance.BLOCK: "randomness.by-round",
    Acceptance.COUPLED: "randomness.shared-noise",
    Acceptance.MATCHING: "randomness.stateless",
}


def addressing_rule(acceptance: Acceptance | None) -> str:
    """The rule that says which addresses decoding reads: positions, unless the acceptance rule has its own."""
    return _ADDRESSING.get(acceptance, "randomness.by-position")


def switched_trial(name: str, acceptance: Acceptance | None, seed: int, *, seeded: bool = True) -> Trial:
    """Requests of different prompts and lengths, with seeds of their own unless the call's is to be used."""
    pair = crafted_pair(name)
    options = RunOptions(
        max_tokens=TOKENS, temperature=1.0 if acceptance else 0.0, max_proposals=DEPTH, acceptance=acceptance
    )
    outputs = pair.target.greedy_path(pair.prompt, 5)
    requests = tuple(
        Request(
            prompt=pair.prompt + outputs[: 2 * index],
            options=replace(
                options,
                max_tokens=TOKENS - 3 * index,
                seed=root(seed, f"path.switches/{name}", index) if seeded else None,
            ),
        )
        for index in range(REQUESTS)
    )
    return Trial(pair=pair, requests=requests)
