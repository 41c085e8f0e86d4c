"""The formulae of sample sizes, and the tails, against numbers that are known from elsewhere."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from eredu_validation.evidence import Design, needed_divergence
from eredu_validation.evidence.chi_square import upper_tail
from eredu_validation.evidence.diagnostics import distance_test, g_test
from eredu_validation.evidence.transforms import Order


def test_needed_divergence_is_that_of_the_method() -> None:
    assert needed_divergence(1e-6, 1e-2) == pytest.approx(32.6, abs=0.05)
    assert needed_divergence(1e-6, 1e-6) == pytest.approx(70.1, abs=0.05)


@pytest.mark.parametrize(
    ("variation", "tokens"),
    [(0.1, 1_600), (0.05, 6_500), (0.02, 41_000), (0.01, 163_000), (0.005, 652_000), (0.001, 16e6)],
)
def test_sample_sizes_of_a_right_bet(variation: float, tokens: float) -> None:
    """Worst case of a total variation, at (1e-6, 1e-2)."""
    design = Design(alpha=1e-6)
    needed = design.tokens_needed(variation)
    assert needed == pytest.approx(tokens, rel=0.03)
    assert needed is not None
    assert design.resolved(needed) == pytest.approx(variation, rel=1e-3)


def test_a_tolerance_hides_what_is_smaller() -> None:
    design = Design(alpha=0.05, tolerance=2e-3, burden=2.0)
    assert design.tokens_needed(4e-3) is None
    assert design.resolved(10**9) == pytest.approx(4e-3, rel=0.1)
    assert design.resolved(0) == 1.0


def test_a_weight_costs_what_it_says() -> None:
    plain, dear = Design(alpha=1e-3), Design(alpha=1e-6, weight=1e-3)
    assert dear.nats == pytest.approx(needed_divergence(1e-9))
    assert plain.nats == pytest.approx(needed_divergence(1e-3))


@pytest.mark.parametrize("degrees", [1, 3, 15, 12, 63])
@pytest.mark.parametrize("value", [0.1, 3.0, 30.0, 120.0, 400.0])
@pytest.mark.parametrize("shift", [0.0, 2.0, 60.0, 900.0])
def test_tails_are_scipys(degrees: int, value: float, shift: float) -> None:
    theirs = stats.ncx2.sf(value, degrees, shift) if shift else stats.chi2.sf(value, degrees)
    assert upper_tail(value, degrees, shift) == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def test_g_and_distance_by_hand() -> None:
    cells = (20,) * 32 + (10,) * 32
    test = g_test(cells, Order.ID, "all tokens", tolerance=0.0)
    expected = 2 * (8 * 80 * math.log(80 / 60) + 8 * 40 * math.log(40 / 60))
    assert test.statistic == pytest.approx(expected)
    assert test.degrees == 15
    assert distance_test(cells, Order.ID, tolerance=0.0).statistic == pytest.approx(2 / 3 - 1 / 2)


def test_few_tokens_merge_cells() -> None:
    assert g_test((1,) * 40 + (0,) * 24, Order.ID, "x", tolerance=0.0).degrees == 7
    assert g_test((1,) * 10 + (0,) * 54, Order.ID, "x", tolerance=0.0).degrees == 1
