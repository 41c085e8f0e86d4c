"""Processed rows in fractions: by hand, and against the reference's float64 rows on the same logits."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from eredu_reference.requests import Sampling
from eredu_reference.rows import processed_row
from eredu_spec.grammar import Grammar
from eredu_spec.processing import InvalidRowError, Processing

Row = tuple[Fraction, ...]


def fifths(*weights: int) -> Row:
    return tuple(Fraction(weight, 5) for weight in weights)


def shares(*weights: int) -> Row:
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


@pytest.mark.parametrize(
    ("processing", "expected"),
    [
        (Processing(), shares(4, 2, 2, 1)),
        (Processing(top_k=2), shares(4, 2, 2, 0)),  # the tie with the second largest stays
        (Processing(top_k=4), shares(4, 2, 2, 1)),
        (Processing(top_p=Fraction(4, 9)), shares(4, 0, 0, 0)),
        (Processing(top_p=Fraction(1, 2)), shares(4, 2, 2, 0)),
        (Processing(min_p=Fraction(1, 2)), shares(4, 2, 2, 0)),
        (Processing(min_p=Fraction(51, 100)), shares(4, 0, 0, 0)),
        (Processing(power=2), shares(16, 4, 4, 1)),
        (Processing(bias={3: Fraction(4)}), shares(4, 2, 2, 4)),
        (Processing(presence=Fraction(1, 2)), shares(4, 2, 1, 1)),
        (Processing(frequency=Fraction(1, 2)), shares(8, 4, 1, 2)),
        (Processing(repetition=2), shares(16 * 1, 4 * 1, 4 * 1, 5)),
        (Processing(repetition=2, repeat_last_n=1), shares(20, 10, 4, 5)),
    ],
    ids=lambda value: None,
)
def test_by_hand(processing: Processing, expected: Row) -> None:
    # Prompt 0 1, output 2 2: id 2 was generated twice, ids 0 and 1 were seen, id 3 never.
    assert processing.row(fifths(4, 2, 2, 1), (0, 1), (2, 2)) == expected


def test_a_filter_sees_what_the_steps_in_front_of_it_left() -> None:
    penalised = Processing(presence=Fraction(1, 4), top_k=1)
    assert penalised.row(fifths(4, 3, 2), (1,), (0,)) == shares(0, 1, 0)
    halved = Processing(top_k=2, top_p=Fraction(3, 5))
    assert halved.row(fifths(3, 2, 5), (0,), ()) == shares(0, 0, 1), "top-p is measured on what top-k left"


def test_a_mask_comes_first() -> None:
    grammar = Grammar(edges={(0, 1): 1, (0, 2): 1}, complete=frozenset({1}))
    assert Processing(grammar=grammar, top_k=1).row(fifths(5, 1, 2), (0,), ()) == shares(0, 0, 1)


@pytest.mark.parametrize(
    ("processing", "weights", "output", "complaint"),
    [
        (Processing(grammar=Grammar(edges={(0, 0): 1}, complete=frozenset({1}))), fifths(1, 1), (0,), "no id is legal"),
        (Processing(grammar=Grammar(edges={(0, 0): 1}, complete=frozenset())), fifths(1, 1), (1,), "no id is legal"),
        (Processing(), fifths(0, 0), (), "no id is legal"),
        (Processing(repetition=2), fifths(6, 1), (0,), "scale the row"),
    ],
)
def test_a_row_without_a_meaning_is_refused(
    processing: Processing, weights: Row, output: tuple[int, ...], complaint: str
) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        processing.row(weights, (0,), output)


@pytest.mark.parametrize("seed", range(60))
def test_the_reference_says_the_same_in_floats(seed: int) -> None:
    random = Random(seed)
    weights = fifths(*(random.randint(0, 5) for _ in range(5)), random.randint(1, 5))
    prompt = tuple(random.randrange(6) for _ in range(3))
    output = tuple(random.randrange(6) for _ in range(random.randrange(5)))
    top_k, last, power, repetition = (random.choice(choices) for choices in ((0, 2, 3), (0, 2), (1, 2), (1, 2)))
    top_p, min_p = random.choice((Fraction(1), Fraction(3, 5))), random.choice((Fraction(0), Fraction(1, 7)))
    bias, presence, frequency = (random.choice((Fraction(1), Fraction(1, 3))) for _ in range(3))
    exact = Processing(
        bias={0: bias},
        repetition=repetition,
        repeat_last_n=last,
        frequency=frequency,
        presence=presence,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        power=power,
    ).row(weights, prompt, output)
    with np.errstate(divide="ignore"):
        logits = np.log(np.array([float(weight) for weight in weights]))
    floats = processed_row(
        logits,
        history=prompt + output,
        prompt_length=len(prompt),
        sampling=Sampling(
            logit_bias={0: float(np.log(float(bias)))},
            repetition_penalty=repetition,
            repeat_last_n=last,
            frequency_penalty=-float(np.log(float(frequency))),
            presence_penalty=-float(np.log(float(presence))),
            top_k=top_k,
            top_p=float(top_p),
            min_p=float(min_p),
            temperature=1 / power,
        ),
        mask=None,
    )
    np.testing.assert_allclose(floats, [float(share) for share in exact], rtol=1e-12, atol=1e-14)
