"""The statistics: tails against scipy, level on right samples, power on wrong ones, pooling by the law alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eredu_conformance.checks.expected_output import ExpectedOutput
from eredu_conformance.checks.law.chi_square import (
    critical_value,
    noncentral_survival,
    resolved_shift,
    resolved_variation,
    survival,
)
from eredu_conformance.checks.law.expected_law import ExpectedLaw
from eredu_conformance.checks.law.likelihood_ratio import Law, Stratum, likelihood_ratio_test
from eredu_conformance.checks.law.sampled import ALPHA, Design, designs, judge
from eredu_conformance.checks.law_pairs import law_pairs
from eredu_conformance.protocol import Acceptance, Request


@pytest.mark.parametrize("degrees", [1, 2, 7, 26, 63, 234])
@pytest.mark.parametrize("value", [0.01, 3.0, 30.0, 120.0, 400.0])
def test_tails_are_scipys(degrees: int, value: float) -> None:
    assert survival(value, degrees) == pytest.approx(stats.chi2.sf(value, degrees), rel=1e-8, abs=1e-13)
    ours, theirs = noncentral_survival(value, degrees, 25.0), stats.ncx2.sf(value, degrees, 25.0)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("alpha", [1e-3, 1e-8])
@pytest.mark.parametrize("degrees", [1, 26, 234])
def test_critical_values_are_scipys(degrees: int, alpha: float) -> None:
    assert critical_value(degrees, alpha) == pytest.approx(stats.chi2.isf(alpha, degrees), rel=1e-7)


def test_resolved_shifts_are_those_of_the_literature() -> None:
    """Non-centralities at (1e-6, 1e-2), as power tables have them."""
    for degrees, shift in ((1, 52.1), (7, 68.5), (31, 97.9), (63, 121.8)):
        assert resolved_shift(degrees, 1e-6, 0.01) == pytest.approx(shift, abs=0.06)
    assert resolved_variation(7, 1e-6, 0.01, 1700) == pytest.approx(0.1, abs=0.001)


def test_pooling_goes_by_the_law() -> None:
    law: Law = {"a": 0.7, "b": 0.26, "c": 0.02, "d": 0.01, "e": 0.01, "f": 0.0}
    quiet = Stratum(law, {"a": 70, "b": 26, "c": 2, "d": 1, "e": 1}, expected=100.0)
    loud = Stratum(law, {"a": 10, "c": 50, "d": 20, "e": 20}, expected=100.0)
    assert [p for p, _ in quiet.cells()] == [p for p, _ in loud.cells()]
    assert all(p * 100 >= 5 for p, _ in quiet.cells()[:-1])
    assert quiet.statistic()[0] < 1
    assert loud.statistic()[0] > 100


def _design() -> Design:
    return next(d for d in designs() if d.pair == "law-order-2" and d.label == "t1")


def _draws(law: ExpectedLaw, samples: int, generator: np.random.Generator) -> list[tuple[int, ...]]:
    """Outputs of a right engine, drawn from the law of whole outputs."""
    outputs = sorted(law.outputs)
    weights = np.array([law.outputs[output] for output in outputs])
    return [outputs[i] for i in generator.choice(len(outputs), size=samples, p=weights / weights.sum())]


def test_the_level_holds_on_small_samples() -> None:
    """At level 0.02, 500 right samples of 96 outputs: a binomial count, outside of [1, 25] with a chance of 1e-4."""
    design, generator = _design(), np.random.default_rng(5)
    law = design.expected
    rejections = {"window": 0, "context": 0}
    for _ in range(500):
        sample = _draws(law, 96, generator)
        rejections["window"] += likelihood_ratio_test("w", [law.window_stratum(3, sample)], 0.02).rejects
        rejections["context"] += likelihood_ratio_test("c", law.context_strata(sample), 0.02).rejects
    assert all(1 <= count <= 25 for count in rejections.values()), rejections


@pytest.mark.parametrize("samples", [96, 640])
def test_right_samples_pass_and_say_what_they_resolve(samples: int) -> None:
    design = _design()
    tests = judge(design, _draws(design.expected, samples, np.random.default_rng(6)))
    assert not any(test.rejects for test in tests)
    assert sum(test.alpha for test in tests) == pytest.approx(ALPHA)
    assert all(0 < test.resolves < 1 for test in tests)


def test_a_sample_of_another_law_is_rejected() -> None:
    """The negative control: outputs of the draft's law, whose divergence is far above what the sample resolves."""
    design = _design()
    draft = ExpectedLaw(ExpectedOutput(law_pairs()[design.pair].draft, design.request))
    wrong = _draws(draft, 96, np.random.default_rng(7))
    assert any(test.rejects for test in judge(design, wrong))


def test_dependence_between_neighbours_is_rejected() -> None:
    """Every token has its right marginal law, and neighbours are independent: only joint laws can tell."""
    design, generator = _design(), np.random.default_rng(8)
    law = design.expected
    columns = np.array(_draws(law, 4000, generator), dtype=np.int64)
    for place in range(columns.shape[1]):
        generator.shuffle(columns[:, place])
    tests = judge(design, [tuple(int(t) for t in row) for row in columns])
    assert all(test.rejects for test in tests if "jointly" in test.name)


def test_impossible_outputs_are_found() -> None:
    design = next(d for d in designs() if d.pair == "law-zeros" and d.acceptance is Acceptance.REJECTION)
    assert design.expected.impossible([next(iter(design.expected.outputs))]) is None
    unseen = design.expected.impossible([(9, 9, 9, 9, 9, 9)])
    assert unseen == (9, 9, 9, 9, 9, 9)
    assert isinstance(design.request, Request)
