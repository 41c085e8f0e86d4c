"""Folding: a large vocabulary as few cells, with the law of the folded token, and nothing impossible made possible."""

from __future__ import annotations

import numpy as np
import pytest

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence import Emission, Evidence, Stratum, Terms, columns_of
from eredu_validation.evidence.emission import Floats
from eredu_validation.evidence.folding import IMPOSSIBLE, OTHERS, Folding
from eredu_validation.evidence.portfolio import portfolio
from eredu_validation.evidence.transforms import View

WIDTH, CELLS = 3_000, 64


def row(generator: np.random.Generator, *, zeros: float = 0.3) -> Floats:
    scores = generator.normal(size=WIDTH) * 3
    mass = np.exp(scores - scores.max())
    mass[generator.random(WIDTH) < zeros] = 0.0
    result: Floats = mass / mass.sum()
    return result


def emission(token: int, target: Floats, draft: Floats | None, position: int = 0) -> Emission:
    stratum = Stratum(offset=position % 4, proposals=3)
    return Emission(
        token=token, target=target, draft=draft, stratum=stratum, request=0, position=position, recent=(4, 5)
    )


def test_the_folded_row_is_the_law_of_the_folded_token() -> None:
    generator = np.random.default_rng(1)
    target, draft = row(generator), row(generator)
    folding = Folding.of(target, draft, CELLS)
    cells = np.array([folding.cell(token) for token in range(WIDTH)])
    for rows in (target, draft):
        assert folding.fold(rows) == pytest.approx(np.bincount(cells, weights=rows, minlength=CELLS), abs=1e-15)
    assert folding.ids[-2:].tolist() == [OTHERS, IMPOSSIBLE]
    assert all(folding.ids[cell] == token for token, cell in enumerate(cells) if cell < CELLS - 2)
    likeliest = np.argsort(-np.maximum(target, draft))[: CELLS - 2]
    assert set(folding.kept.tolist()) == set(likeliest.tolist())


def test_impossible_ids_stay_impossible() -> None:
    generator = np.random.default_rng(2)
    target = row(generator)
    unlikely = int(np.flatnonzero(target == 0)[5])
    columns = columns_of([emission(unlikely, target, None)], cells=CELLS)
    assert columns.target[0, columns.tokens[0]] == 0
    evidence = Evidence(Terms(), seeds=(1,))
    evidence.take(columns)
    assert evidence.tally.impossible == 1


def test_no_bet_on_folded_rows_grows_in_the_mean() -> None:
    """Over all cells of a row, with everything learned that a wrong stream teaches."""
    generator = np.random.default_rng(3)
    bets = portfolio()
    stream = []
    for position in range(400):
        target, draft = row(generator), row(generator)
        token = int(generator.choice(WIDTH, p=0.5 * target + 0.5 * draft))
        stream.append(emission(token, target, draft, position))
    Evidence(Terms(tolerance=1e-3), seeds=(1,), bets=bets).take(columns_of(stream, cells=CELLS))
    target, draft = row(generator), row(generator)
    folding = Folding.of(target, draft, CELLS)
    # One id for each cell stands for all of the cell.
    standing = [int(folding.kept[cell]) for cell in range(CELLS - 2)]
    standing += [int(np.flatnonzero(folding.others)[0]), int(np.flatnonzero(folding.impossible)[0])]
    columns = columns_of([emission(token, target, draft) for token in standing], cells=CELLS)
    assert columns.tokens.tolist() == list(range(CELLS))
    view = View.of(columns, generator)
    for stake in bets.stakes:
        if stake.name in {"transform", "serial"}:
            continue
        means = folding.fold(target) @ np.exp(stake.family.log_growth(view, tolerance=0.0))
        assert means.max() <= 1 + 1e-9, stake.name


def test_a_leak_shows_through_the_fold_and_a_right_stream_does_not() -> None:
    generator = np.random.default_rng(4)
    for leak, crossed in ((0.0, False), (0.5, True)):
        stream = []
        for position in range(300):
            target, draft = row(generator, zeros=0.0), row(generator, zeros=0.0)
            token = int(generator.choice(WIDTH, p=(1 - leak) * target + leak * draft))
            stream.append(emission(token, target, draft, position))
        evidence = Evidence(Terms(alpha=1e-6), seeds=(1,))
        evidence.take(columns_of(stream, cells=CELLS))
        assert (evidence.crossing is not None) == crossed


def test_wrong_ids_are_refused() -> None:
    target = row(np.random.default_rng(5))
    for token in (-1, WIDTH):
        with pytest.raises(EvidenceError, match=f"id {token} was emitted over a row of {WIDTH} ids"):
            columns_of([emission(token, target, None)], cells=CELLS)
