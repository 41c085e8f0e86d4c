"""Level: right subjects are rejected no more often than alpha, also those at the edge of a tolerance.

The proof is Ville's inequality and the e-values of `test_evidence_payoffs.py`; these tests would notice ledgers
that break it. Each states how often it fails although the level holds, at the largest rate that is allowed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eredu_conformance.validator_power.calibration import calibrate, subject
from eredu_validation.evidence import Evidence, Terms
from eredu_validation.evidence.diagnostics import Diagnostic, diagnose, distance_test, g_test, holm
from eredu_validation.evidence.transforms import Order

ALPHA = 0.05


@pytest.mark.parametrize("tolerance", [pytest.param(0.0, marks=pytest.mark.nightly), 2e-3])
def test_few_right_subjects_of_forty_are_rejected(tolerance: float) -> None:
    """More than 10 of 40 at a true rate of 5 %: a chance of 3e-6; at the 1 % that was measured, of 2e-13."""
    assert stats.binom.sf(10, 40, ALPHA) < 5e-6
    seen = calibrate(runs=40, tokens=128, terms=Terms(alpha=ALPHA, tolerance=tolerance), first_seed=5_000)
    assert seen.rejected <= 10, seen


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("tolerance", [0.0, 2e-3])
def test_of_a_thousand_right_subjects_at_most_5_percent_are_rejected(tolerance: float) -> None:
    """At the 1 to 2 % that was measured, more than 50 of 1,000 have a chance below 1e-8."""
    assert stats.binom.sf(50, 1_000, 0.02) < 1e-8
    seen = calibrate(runs=1_000, tokens=250, terms=Terms(alpha=ALPHA, tolerance=tolerance))
    assert seen.rejected <= 50, seen


def test_diagnostics_of_right_subjects_keep_their_level() -> None:
    """Holm over all tests of a subject at 1 %: more than 4 of 12 subjects have a chance of 7e-8."""
    assert stats.binom.sf(4, 12, 0.01) < 1e-7
    rejected = 0
    for seed in range(12):
        evidence = Evidence(Terms(), seeds=(seed,))
        evidence.take(subject(9_000 + seed, 0.0).columns(seed, 400))
        rejected += bool(holm(diagnose(evidence.tally, tolerance=0.0), 0.01))
    assert rejected <= 4


@pytest.mark.parametrize("tokens", [40, 150, 3_000])
def test_g_and_distance_keep_their_level_on_uniform_counts(tokens: int) -> None:
    """At 1 %, 4,000 samples: a binomial count above 77 has a chance of 1e-7 if the level is exact."""
    generator = np.random.default_rng(tokens)
    counts = generator.multinomial(tokens, np.full(64, 1 / 64), size=4_000)
    cells = [tuple(row) for row in counts.tolist()]
    for test in (g_test, _distance):
        values = [test(row, Order.ID, "all tokens", tolerance=0.0).p_value for row in cells]
        assert sum(value < 0.01 for value in values) <= 77


def _distance(cells: tuple[int, ...], order: Order, stratum: str, *, tolerance: float) -> Diagnostic:
    assert stratum == "all tokens"
    return distance_test(cells, order, tolerance=tolerance)


@pytest.mark.parametrize("tolerance", [2e-3, 0.05])
def test_diagnostics_forgive_the_tolerance_and_no_more(tolerance: float) -> None:
    """U that move by the tolerance to one side; 20 times as much is seen."""
    generator = np.random.default_rng(1)
    for share, seen in ((tolerance, False), (min(0.5, 20 * tolerance), True)):
        uniforms = generator.random(20_000)
        uniforms[generator.random(20_000) < share] *= 1 / 16
        cells = tuple(np.histogram(uniforms, 64, (0, 1))[0].tolist())
        for test in (
            g_test(cells, Order.ID, "x", tolerance=tolerance),
            distance_test(cells, Order.ID, tolerance=tolerance),
        ):
            assert (test.p_value < 1e-6) == seen, test
