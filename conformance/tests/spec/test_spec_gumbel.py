"""The exact joint law of two Gumbel-max draws on one vector: its margins, its bound, and a simulation beside it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from eredu_spec.gumbel import joint_argmax
from eredu_spec.worlds import world

Row = tuple[Fraction, ...]


def normalised(weights: Row) -> Row:
    total = sum(weights, Fraction(0))
    return tuple(weight / total for weight in weights)


WORLDS = [world(seed, vocabulary=4, order=1) for seed in range(8)]
PAIRS = [(normalised(w.target[context]), normalised(w.draft[context])) for w in WORLDS for context in w.target]


def joint(target: Row, draft: Row) -> list[Row]:
    """P(target's token i, drafter's token j), rows by i."""
    columns = [joint_argmax(target, draft, drawn) for drawn in range(len(draft))]
    return [tuple(column[i] for column in columns) for i in range(len(target))]


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_its_margins_are_the_rows(target: Row, draft: Row) -> None:
    law = joint(target, draft)
    assert tuple(sum(entry) for entry in law) == target
    assert tuple(sum(entry) for entry in zip(*law, strict=True)) == draft
    assert all(0 <= chance <= 1 for entry in law for chance in entry)


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_both_agree_as_often_as_the_paper_says(target: Row, draft: Row) -> None:
    agreement = sum((joint(target, draft)[i][i] for i in range(len(target))), Fraction(0))
    distance = sum((abs(p - q) for p, q in zip(target, draft, strict=True)), Fraction(0)) / 2
    assert (1 - distance) / (1 + distance) <= agreement <= 1 - distance


def test_equal_rows_agree_always() -> None:
    row = (Fraction(1, 6), Fraction(1, 3), Fraction(1, 2), Fraction(0))
    law = joint(row, row)
    assert tuple(law[i][i] for i in range(4)) == row


def test_it_is_symmetric() -> None:
    for target, draft in PAIRS[:8]:
        mirrored = joint(draft, target)
        assert joint(target, draft) == [tuple(entry) for entry in zip(*mirrored, strict=True)]


@pytest.mark.parametrize(("target", "draft"), PAIRS[:6])
def test_a_simulation_of_the_vectors_agrees(target: Row, draft: Row) -> None:
    random, count = np.random.default_rng(7), 200_000
    noise = random.gumbel(size=(count, 4))
    with np.errstate(divide="ignore"):
        scores = [np.log(np.array(row, dtype=float)) + noise for row in (target, draft)]
    pairs = scores[0].argmax(1) * 4 + scores[1].argmax(1)
    seen = np.bincount(pairs, minlength=16).reshape(4, 4) / count
    exact = np.array([[float(chance) for chance in entry] for entry in joint(target, draft)])
    # Six standard deviations for each of 16 cells: false alarms below 4e-8, and the seed is fixed.
    assert np.all(np.abs(seen - exact) <= 6 * np.sqrt(exact * (1 - exact) / count) + 1e-12)
