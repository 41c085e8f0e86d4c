"""Every bet is an e-value: its payoff has mean 1 under the rows, and at most 1 for every law within the tolerance.

Nothing is sampled: the mean is taken over all ids, and over a fine grid of the transform's own numbers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import count

import numpy as np
import pytest

from eredu_conformance.validator_power import TableSubject
from eredu_conformance.validator_power.designs import LONG
from eredu_reference.models import TableModel
from eredu_validation.evidence import Columns, Evidence, Portfolio, Terms, portfolio
from eredu_validation.evidence.bets import Fixed, draft
from eredu_validation.evidence.emission import Floats
from eredu_validation.evidence.transforms import Order, View, transform

LIFTS = 240
"""Grid points of V. The transform's bets are piecewise smooth in it, and the mean over the grid errs by their jumps."""
GRID_ERROR = 0.02


FRESH = count(1)
"""Numbers that make requests unlike any before."""


class ConstantGenerator(np.random.Generator):
    """V is always a half."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: int) -> Floats:  # type: ignore[override]
        return np.full(size, 0.5)


def every_token(rows: tuple[Floats, Floats, Floats, Floats], slot: int, copies: int = 1) -> Columns:
    """The same place of one request, once for each id that could be drawn, all of that `copies` times."""
    size = len(rows[0]) * copies
    target, other, lagged, unmasked = (np.tile(row, (size, 1)) for row in rows)
    return Columns(
        tokens=np.tile(np.arange(len(rows[0])), copies),
        target=target,
        draft=other,
        lagged=lagged,
        unmasked=unmasked,
        offsets=np.full(size, (0, 2, 3)[slot]),
        proposals=np.full(size, 3),
        redrafted=np.full(size, slot == 1),
        strata=np.zeros(size, dtype=np.int64),
        names=("one place",),
        requests=np.arange(size) + next(FRESH) * 10**6,
        positions=np.full(size, 7),
        recent=np.full((size, 2), 1),
    )


@cache
def learned(tolerance: float, seed: int, tokens: int = 600) -> Portfolio:
    """A portfolio that has learned from a stream whose law is not the rows'."""
    target, other = (TableModel.random(5, order=1, seed=number) for number in (seed, seed + 50))
    subject = TableSubject(target=target, drafter=other, request=LONG, engine_target=other)
    bets = portfolio()
    Evidence(Terms(tolerance=tolerance), seeds=(seed,), bets=bets).take(subject.columns(seed, tokens))
    return bets


def random_rows(seed: int, *, zeros: bool) -> tuple[Floats, Floats, Floats, Floats]:
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(4):
        weights = generator.exponential(size=5) ** 2
        if zeros:
            weights[generator.integers(5)] = 0.0
        rows.append(weights / weights.sum())
    return rows[0], rows[1], rows[2], rows[3]


def payoffs(bets: Portfolio, rows: tuple[Floats, Floats, Floats, Floats], slot: int, tolerance: float) -> Floats:
    """What each bet pays on each id, averaged over V, shape (V, bets)."""
    columns = every_token(rows, slot, LIFTS)
    # One and the same token before each, so that serial bets have a partner.
    before = View.of(replace(columns, tokens=np.zeros_like(columns.tokens)), ConstantGenerator())
    for stake in bets.stakes:
        stake.family.log_growth(before, tolerance=tolerance)
    lift = np.repeat((np.arange(LIFTS) + 0.5) / LIFTS, len(rows[0]))
    view = View(columns, {order: transform(columns, order, lift) for order in Order})
    logs = [stake.family.log_growth(view, tolerance=tolerance) for stake in bets.stakes]
    mean: Floats = np.exp(np.concatenate(logs, axis=1)).reshape(LIFTS, len(rows[0]), -1).mean(axis=0)
    return mean


def exact_bets(bets: Portfolio) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Bets that don't look at V."""
    names = zip(bets.owners, bets.names, strict=True)
    return np.array([owner.name not in {"transform", "serial"} or name.startswith("one ") for owner, name in names])


@pytest.mark.parametrize("slot", [0, *(pytest.param(slot, marks=pytest.mark.nightly) for slot in (1, 2))])
@pytest.mark.parametrize("zeros", [False, True])
def test_no_bet_grows_in_the_mean_under_an_exact_null(slot: int, zeros: bool) -> None:
    for seed in range(3):
        rows = random_rows(seed, zeros=zeros)
        bets = learned(0.0, seed)
        mean = rows[0] @ payoffs(bets, rows, slot, 0.0)
        exact = exact_bets(bets)
        assert mean[exact].max() <= 1 + 1e-12, bets.names[int(np.argmax(np.where(exact, mean, 0)))]
        assert np.abs(mean[~exact] - 1).max() < GRID_ERROR
        if not zeros:
            # Mixtures of distributions on the rows' own support lose nothing either.
            assert mean[exact].min() >= 1 - 1e-12


@pytest.mark.parametrize("tolerance", [2e-3, *(pytest.param(each, marks=pytest.mark.nightly) for each in (1e-5, 0.1))])
@pytest.mark.parametrize("zeros", [False, True])
def test_no_bet_grows_in_the_mean_for_any_law_within_the_tolerance(tolerance: float, zeros: bool) -> None:
    """The worst law moves as much mass as is allowed from the ids that pay least to the one that pays most."""
    for seed in range(3):
        rows = random_rows(seed, zeros=zeros)
        bets = learned(tolerance, seed)
        paid = payoffs(bets, rows, seed % 3, tolerance)
        worst = np.array([_worst_mean(rows[0], column, tolerance) for column in paid.T])
        exact = exact_bets(bets)
        assert worst[exact].max() <= 1 + 1e-12, bets.names[int(np.argmax(np.where(exact, worst, 0)))]
        assert worst[~exact].max() <= 1 + GRID_ERROR


def _worst_mean(row: Floats, paid: Floats, tolerance: float) -> float:
    law, left, best = row.copy(), tolerance, int(np.argmax(paid))
    for token in np.argsort(paid):
        moved = min(left, law[token]) if token != best else 0.0
        law[token] -= moved
        law[best] += moved
        left -= moved
    return float(law @ paid)


def test_without_the_charge_a_tolerated_law_would_be_accused() -> None:
    """The negative control: at tolerance 0 the same laws do let bets grow."""
    rows = random_rows(1, zeros=False)
    bets = portfolio()
    paid = payoffs(bets, rows, 0, 0.0)
    assert max(_worst_mean(rows[0], column, 2e-3) for column in paid.T) > 1 + 1e-3


def test_a_leak_is_paid_the_likelihood_ratio_of_the_mixture() -> None:
    rows = random_rows(2, zeros=False)
    columns = every_token(rows, 0)
    bet = Fixed("draft", draft, (0.3,))
    view = View(columns, {})
    expected = np.log((0.7 * rows[0] + 0.3 * rows[1]) / rows[0])
    np.testing.assert_allclose(bet.log_growth(view, tolerance=0.0)[:, 0], expected, rtol=1e-12, atol=1e-14)


def test_bets_without_rows_to_bet_on_stay_where_they_are() -> None:
    """Where no draft, no stale and no unmasked row is known, bets on them pay exactly 1."""
    row = random_rows(3, zeros=False)[0]
    columns = every_token((row, row, row, row), 0)
    view = View.of(columns, np.random.default_rng(0))
    idle = {"leak", "anti-leak", "residual", "acceptance", "lag", "mask"}
    for stake in portfolio().stakes:
        moves = np.abs(stake.family.log_growth(view, tolerance=0.0)).max()
        assert (moves < 1e-12) == (stake.name in idle | {"universal", "transform", "serial"}), stake.name


def test_weights_add_up_and_names_are_unique() -> None:
    bets = portfolio()
    assert np.exp(bets.log_weights).sum() == pytest.approx(1, abs=1e-12)
    assert len(set(bets.names)) == len(bets.names) == len(bets.owners)
