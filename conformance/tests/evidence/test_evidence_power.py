"""Power: planted faults of the law are rejected, and what is called resolved would have been reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eredu_conformance.faults import FAULTS
from eredu_conformance.validator_power import DESIGNS, UNSEEN, measure
from eredu_conformance.validator_power.power import RACE, markdown
from eredu_validation.evidence import Columns, Evidence, Terms, design_of

LAW_FAULTS = [fault.name for fault in FAULTS if fault.killed_by.startswith("law.")]
LOUD = [
    "greedy-draft-called-sampled",
    "q-missing-from-the-ratio",
    "residual-of-absolute-difference",
    "residual-the-wrong-way-round",
    "residual-not-normalised",
    "first-proposal-unverified",
    "accepts-behind-a-rejection",
    "guess-becomes-the-bonus",
]
"""Faults that a few hundred tokens show."""


def test_every_fault_of_the_law_has_a_design_or_a_reason() -> None:
    assert set(DESIGNS) == set(LAW_FAULTS)
    assert set(UNSEEN) <= set(LAW_FAULTS)
    assert set(RACE) <= set(LAW_FAULTS)


@pytest.mark.parametrize("fault", LOUD)
def test_loud_faults_are_rejected_at_once(fault: str) -> None:
    design = DESIGNS[fault]
    row = measure(fault, replace(design, seeds=design.seeds[:1], most_tokens=2_000))
    assert row.median is not None, f"{fault} emitted {design.most_tokens} tokens and was not rejected"
    assert row.median <= 2 * RACE.get(fault, 1_000)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", [name for name in LAW_FAULTS if name not in UNSEEN])
def test_every_fault_of_the_law_is_rejected(fault: str) -> None:
    """On every pair of tables, at 1e-6; where the race has figures, with at most twice the tokens of its best test."""
    row = measure(fault, DESIGNS[fault])
    assert row.median is not None, markdown(row)
    assert fault not in RACE or row.median <= 2 * RACE[fault], markdown(row)


def coin_tosses(seed: int, tokens: int, variation: float, draft: float) -> Columns:
    """The hardest shape for its total variation: two even ids, one of them likelier by the same bit every time."""
    generator = np.random.default_rng(seed)
    even = np.full((tokens, 2), 0.5)
    places = np.arange(tokens)
    return Columns(
        tokens=(generator.random(tokens) >= 0.5 + variation).astype(np.int64),
        target=even,
        draft=np.tile([draft, 1 - draft], (tokens, 1)),
        lagged=even,
        unmasked=even,
        offsets=generator.integers(4, size=tokens),
        proposals=np.full(tokens, 3),
        redrafted=np.zeros(tokens, dtype=np.bool_),
        strata=np.zeros(tokens, dtype=np.int64),
        names=("all",),
        requests=places // 50,
        positions=places % 50,
        recent=np.full((tokens, 2), -1),
    )


@pytest.mark.parametrize(
    ("tolerance", "draft"),
    [
        (0.0, 0.9),
        pytest.param(2e-3, 0.1, marks=pytest.mark.nightly),
        pytest.param(0.0, 0.1, marks=pytest.mark.nightly),
        pytest.param(2e-3, 0.9, marks=pytest.mark.nightly),
    ],
)
def test_what_is_called_resolved_is_reported(tolerance: float, draft: float) -> None:
    """20 subjects off by just what 600 tokens resolve. At a power of 0.99 more than 3 misses have a chance of 5e-5."""
    terms, tokens = Terms(alpha=0.05, tolerance=tolerance), 600
    variation = design_of(terms).resolved(tokens)
    missed = 0
    for seed in range(20):
        evidence = Evidence(terms, seeds=(seed,))
        evidence.take(coin_tosses(seed, tokens, variation, draft))
        missed += evidence.crossing is None
    assert missed <= 3


def test_a_tolerated_leak_is_not_reported() -> None:
    """2 subjects off by just the tolerance, at alpha 1e-6: reported where nothing is tolerated, and so seen at all."""
    for tolerance, reported in ((0.1, False), (0.0, True)):
        for seed in range(2):
            evidence = Evidence(Terms(alpha=1e-6, tolerance=tolerance), seeds=(seed,))
            evidence.take(coin_tosses(seed, 2_500, 0.1, 0.9))
            assert (evidence.crossing is not None) == reported
