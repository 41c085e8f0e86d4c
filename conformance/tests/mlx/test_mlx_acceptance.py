"""Acceptance on the device: decisions and residuals against float64, the law of one round, and unsound numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import eredu.mlx.acceptance as module
from eredu.mlx.acceptance import Verdict, reject, verify_block
from eredu.mlx.draws import draw
from eredu_reference.acceptance import block_length, rejection_length, residual
from eredu_reference.acceptance import block_weights as reference_weights
from eredu_reference.sources import FixedUniform

Row = NDArray[np.float64]
RULES: dict[str, Callable[..., Verdict]] = {"rejection": reject, "block": verify_block}
BELOW_ONE = 1 - 2.0**-24


@dataclass
class Scripted:
    """Verdicts under scripted coins; the distribution of the final token is captured instead of drawn from."""

    rule: Callable[..., Verdict]
    captured: list[Row] = field(default_factory=list)

    def __call__(
        self, proposals: Sequence[int], target: Row, draft: Row, coins: Sequence[float]
    ) -> tuple[int, Row, bool]:
        """Accepted length, distribution of the final token in float64, soundness."""
        count = len(proposals)

        def capture(scores: mx.array, keys: mx.array) -> mx.array:
            row = np.array(scores[0], dtype=np.float64)
            with np.errstate(invalid="ignore"):
                masses = np.exp(row - row.max())
                self.captured.append(masses / masses.sum())
            return mx.argmax(scores, axis=-1)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "coins", lambda keys: mx.array(list(coins), dtype=mx.float32))
            patch.setattr(module, "draw", capture)
            verdict = self.rule(
                mx.array(list(proposals), dtype=mx.uint32),
                mx.array(draft.astype(np.float32)),
                mx.array(target.astype(np.float32)),
                coin_keys=mx.zeros((count, 2), dtype=mx.uint32),
                final_keys=mx.zeros((count + 1, 2), dtype=mx.uint32),
            )
            accepted, sound = cast(int, verdict.accepted.item()), bool(verdict.sound.item())
        return accepted, self.captured.pop(), sound


def log(rows: Sequence[Sequence[float]] | Sequence[Row]) -> Row:
    with np.errstate(divide="ignore"):
        return np.log(np.array(rows, dtype=np.float64))


def softmax(scores: Row) -> Row:
    masses = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Round:
    proposals: tuple[int, ...]
    target: Row
    draft: Row
    coins: tuple[float, ...]


@st.composite
def rounds(draw_: st.DrawFn, vocabulary: int = 5) -> Round:
    """Rows on a coarse grid, with excluded ids; proposals that q allows; k from 1 to 8."""
    count = draw_(st.integers(1, 8))
    score = st.one_of(st.integers(-12, 12).map(lambda value: value / 3), st.just(-math.inf))
    rows: list[list[float]] = [
        draw_(st.lists(score, min_size=vocabulary, max_size=vocabulary).filter(lambda row: max(row) > -math.inf))
        for _ in range(2 * count + 1)
    ]
    target, draft = np.array(rows[: count + 1]), np.array(rows[count + 1 :])
    same = draw_(st.lists(st.booleans(), min_size=count, max_size=count))
    for index in range(count):
        if same[index]:
            draft[index] = target[index]
    proposals = tuple(
        draw_(st.sampled_from([token for token in range(vocabulary) if row[token] > -math.inf])) for row in draft
    )
    coins = tuple(draw_(st.integers(0, 2**24 - 1)) * 2.0**-24 for _ in range(count))
    return Round(proposals, target, draft, coins)


def is_on_an_edge(case: Round, length_of: Callable[..., int]) -> bool:
    """Whether float32 may decide otherwise: some coin, moved by 1e-5 of itself or 1e-6, changes the length."""
    p, q = list(softmax(case.target)), list(softmax(case.draft))
    lengths = {
        length_of(case.proposals, p, q, lambda index, f=factor, d=shift: FixedUniform(case.coins[index] * f + d))
        for factor, shift in ((1, 0), (1 - 1e-5, -1e-6), (1 + 1e-5, 1e-6))
    }
    return len(lengths) > 1


# rule: verify.rejection-below-ratio, verify.residual-positive-part
# rule: verify.block-longest-length, verify.block-residual
@pytest.mark.parametrize(
    ("rule", "length_of", "rtol"), [("rejection", rejection_length, 1e-4), ("block", block_length, 1e-3)]
)
@given(case=rounds())
def test_a_rule_decides_as_float64(rule: str, length_of: Callable[..., int], rtol: float, case: Round) -> None:
    if is_on_an_edge(case, length_of):
        return
    p, q = softmax(case.target), softmax(case.draft)
    wanted = length_of(case.proposals, list(p), list(q), lambda index: FixedUniform(case.coins[index]))
    accepted, final, sound = Scripted(RULES[rule])(case.proposals, case.target, case.draft, case.coins)
    assert sound
    assert accepted == wanted
    weight = reference_weights(case.proposals, list(p), list(q))[wanted] if rule == "block" else 1.0
    expected = p[wanted] if wanted == len(q) else residual(p[wanted], q[wanted], weight)
    np.testing.assert_allclose(final, expected, rtol=rtol, atol=rtol / 100)


def threshold(scripted: Scripted, proposals: Sequence[int], target: Row, draft: Row, index: int, rule: str) -> float:
    """Chance that coin `index` accepts, by bisection over its 2**24 values with the other coins out of the way."""
    low, high = 0, 2**24
    others = 0.0 if rule == "rejection" else BELOW_ONE
    while low < high:
        middle = (low + high) // 2
        coins = [others] * len(proposals)
        coins[index] = middle * 2.0**-24
        accepted, _, _ = scripted(proposals, target, draft, coins)
        accepts = accepted > index if rule == "rejection" else accepted == index + 1
        low, high = (middle + 1, high) if accepts else (low, middle)
    return low * 2.0**-24


# rule: verify.same-law
@pytest.mark.parametrize("rule", list(RULES))
def test_the_exact_law_of_one_round(rule: str) -> None:
    """Every block of k = 2 over 3 ids, every accepted length, completed by p: the joint law of 3 tokens is p's.

    Exact up to the grid of coins and float32: the bound is 1e-6 a cell.
    """
    generator = np.random.default_rng(5)
    p_rows = {
        prefix: generator.dirichlet(np.ones(3)) for n in range(3) for prefix in itertools.product(range(3), repeat=n)
    }
    q_rows = {
        prefix: generator.dirichlet(np.ones(3)) for n in range(2) for prefix in itertools.product(range(3), repeat=n)
    }
    p_rows[0,] = np.array([0.0, 0.4, 0.6])  # an id that p excludes and q proposes
    p_rows[1,] = q_rows[1,]  # a row where both agree
    law: dict[tuple[int, ...], float] = dict.fromkeys(itertools.product(range(3), repeat=3), 0.0)
    scripted = Scripted(RULES[rule])
    for block in itertools.product(range(3), repeat=2):
        prefixes = [block[:n] for n in range(3)]
        target, draft = log([p_rows[x] for x in prefixes]), log([q_rows[x] for x in prefixes[:2]])
        chance_of_block = q_rows[()][block[0]] * q_rows[block[:1]][block[1]]
        chances = [threshold(scripted, block, target, draft, index, rule) for index in range(2)]
        lengths = (
            [1 - chances[0], chances[0] * (1 - chances[1]), chances[0] * chances[1]]
            if rule == "rejection"
            else [(1 - chances[0]) * (1 - chances[1]), chances[0] * (1 - chances[1]), chances[1]]
        )
        for length, chance in enumerate(lengths):
            if chance == 0:
                continue
            coins = [0.0 if index < length else BELOW_ONE for index in range(2)]
            if rule == "block":
                coins = [0.0 if index == length - 1 else BELOW_ONE for index in range(2)]
            accepted, final, sound = scripted(block, target, draft, coins)
            if accepted != length:  # its own coin cannot reject: the chance is the grid's last step
                assert chance < 1e-7
                continue
            assert sound
            for token in range(3):
                emitted = (*block[:length], token)
                for rest in itertools.product(range(3), repeat=3 - len(emitted)):
                    outcome = (*emitted, *rest)
                    tail = math.prod(p_rows[outcome[:n]][outcome[n]] for n in range(len(emitted), 3))
                    law[outcome] += chance_of_block * chance * final[token] * tail
    for outcome, chance in law.items():
        exact = math.prod(p_rows[outcome[:n]][outcome[n]] for n in range(3))
        assert chance == pytest.approx(exact, abs=1e-6), outcome


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("count", range(1, 9))
def test_equal_rows_accept_everything(rule: str, count: int) -> None:
    target = np.random.default_rng(count).normal(size=(count + 1, 50)) * 4
    proposals = [int(np.argmax(row)) for row in target[:-1]]
    accepted, final, sound = Scripted(RULES[rule])(proposals, target, target[:-1], [BELOW_ONE] * count)
    assert (accepted, sound) == (count, True)
    np.testing.assert_allclose(final, softmax(target.astype(np.float32).astype(np.float64))[count], rtol=1e-5)


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("exponent", [-20.0, -60.0, -100.0, -300.0])
def test_a_tiny_p_is_not_accepted_by_any_coin_above_its_ratio(rule: str, exponent: float) -> None:
    """p/q of e**-20 (2.1e-9) to e**-300 lies below the first coin above 0; in float16 it would be 0 <= 0."""
    target, draft = np.array([[0.0, exponent], [0.0, 0.0]]), np.array([[-50.0, 0.0]])
    accepted, final, sound = Scripted(RULES[rule])([1], target, draft, [2.0**-24])
    assert (accepted, sound) == (0, True)
    np.testing.assert_allclose(final, [1, 0], atol=1e-6)


# rule: verify.rejection-below-ratio
def test_a_p_of_zero_is_not_accepted_by_coin_zero() -> None:
    for rule in RULES.values():
        accepted, _, sound = Scripted(rule)([1], log([[1.0, 0.0], [0.5, 0.5]]), log([[0.5, 0.5]]), [0.0])
        assert (accepted, sound) == (0, True)


# rule: verify.residual-positive-part
@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("tail", [1e-6, 1e-8, 1e-12, 1e-30])
def test_a_residual_below_float32s_rounding_of_one_is_still_there(rule: str, tail: float) -> None:
    """P = (1 - t, t) and q = (1 - 2t, 2t): rejecting id 1 leaves t for id 0, which 1 - t rounded to 1 would hide."""
    target, draft = np.array([[0.0, math.log(tail)], [0.0, 0.0]]), np.array([[0.0, math.log(2 * tail)]])
    accepted, final, sound = Scripted(RULES[rule])([1], target, draft, [0.75])
    assert (accepted, sound) == (0, True)
    np.testing.assert_allclose(final, [1, 0], atol=1e-6)


# rule: verify.invalid-is-error
@pytest.mark.parametrize("rule", list(RULES))
def test_a_drawn_proposal_that_q_excludes_is_unsound(rule: str) -> None:
    target, draft = log([[0.5, 0.5], [0.5, 0.5]]), log([[1.0, 0.0]])
    for coin in (0.0, 0.5, BELOW_ONE):
        assert not Scripted(RULES[rule])([1], target, draft, [coin])[2]


# rule: verify.invalid-is-error
@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("size", [3, 40])
def test_one_bad_number_anywhere_is_unsound(rule: str, bad: float, size: int) -> None:
    generator = np.random.default_rng(0)
    for side, rows in (("target", 3), ("draft", 2)):
        for row, column in itertools.product(range(rows), (0, 1, size - 1)):
            target, draft = generator.normal(size=(3, size)), generator.normal(size=(2, size))
            (target if side == "target" else draft)[row, column] = bad
            sound = Scripted(RULES[rule])([0, 1], target, draft, [0.3, 0.3])[2]
            assert not sound, (side, row, column)


@pytest.mark.parametrize("rule", list(RULES))
def test_a_row_without_any_id_is_unsound(rule: str) -> None:
    for row in range(3):
        target = np.zeros((3, 4))
        target[row] = -math.inf
        assert not Scripted(RULES[rule])([0, 1], target, np.zeros((2, 4)), [0.3, 0.3])[2]


# rule: randomness.roles-disjoint, bonus.from-target
@pytest.mark.parametrize("rule", list(RULES))
def test_the_final_token_reads_the_key_of_its_own_length(rule: str) -> None:
    generator = np.random.default_rng(11)
    keys = mx.array(generator.integers(0, 2**32, size=(4, 2)), dtype=mx.uint32)
    target, draft = generator.normal(size=(4, 64)) * 2, generator.normal(size=(3, 64)) * 2
    p, q = softmax(target), softmax(draft)
    lengths = set()
    for trial in range(60):
        proposals = [int(generator.choice(64, p=row)) for row in q]
        coin_keys = mx.array(generator.integers(0, 2**32, size=(3, 2)), dtype=mx.uint32)
        verdict = RULES[rule](
            mx.array(proposals, dtype=mx.uint32),
            mx.array(draft.astype(np.float32)),
            mx.array(target.astype(np.float32)),
            coin_keys=coin_keys,
            final_keys=keys,
        )
        accepted = cast(int, verdict.accepted.item())
        lengths.add(accepted)
        weight = 1.0 if rule == "rejection" else reference_weights(proposals, list(p), list(q))[accepted]
        final = p[3] if accepted == 3 else residual(p[accepted], q[accepted], weight)
        with np.errstate(divide="ignore"):
            expected = draw(mx.array(np.log(final)[None].astype(np.float32)), keys[accepted][None])
        assert verdict.token.item() == expected.item(), trial
    assert len(lengths) >= 3


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("size", [127, 128, 1000, 152_064])
def test_probabilities_of_large_vocabularies_are_float64s(rule: str, size: int) -> None:
    """One sum over 152 064 ids is off by 2.4e-4 of itself in float32; the threshold of a coin must not be."""
    generator = np.random.default_rng(size)
    target, draft = (generator.normal(size=(rows, size)).astype(np.float32).astype(np.float64) * 3 for rows in (2, 1))
    p, q = softmax(target)[0], softmax(draft)[0]
    token = int(np.argmin(np.abs(p / q - 0.5)))
    found = threshold(Scripted(RULES[rule]), [token], target, draft, 0, rule)
    assert found == pytest.approx(p[token] / q[token], rel=1e-5)


@pytest.mark.parametrize("mass", [1e-6, 1e-7])
def test_a_small_excess_behind_a_full_weight_is_not_lost_beside_one(mass: float) -> None:
    """Weight 1 accepts its length for certain, however little mass the next row has in excess."""
    first = np.log([[0.75, 0.25]])
    target = np.concatenate([first, np.log([[0.5 + mass, 0.5 - mass]]), first])
    draft = np.concatenate([first, np.log([[0.5, 0.5]])])
    accepted, final, sound = Scripted(RULES["block"])([0, 1], target, draft, [0.999, BELOW_ONE])
    assert sound
    assert accepted == 1
    assert final[0] == pytest.approx(1.0)
