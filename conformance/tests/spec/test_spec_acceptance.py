"""The acceptance rules on one block: their exact arithmetic, their order, and what they refuse."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product

import pytest

from eredu_spec.acceptance import Block, block_chance, block_shares, judged
from eredu_spec.addressing import Addressing
from eredu_spec.draws import Fresh
from eredu_spec.processing import InvalidRowError, residual
from eredu_spec.worlds import World, world

Row = tuple[Fraction, ...]
Tokens = tuple[int, ...]


def row(*weights: int) -> Row:
    total = sum(weights)
    return tuple(Fraction(weight, total) for weight in weights)


def normalised(weights: Row) -> Row:
    total = sum(weights, Fraction(0))
    return tuple(weight / total for weight in weights)


def block_of(rule: str, proposals: Tokens, target: list[Row], draft: list[Row]) -> Block:
    return Block(
        rule=rule,
        proposals=proposals,
        target=target.__getitem__,
        draft=draft.__getitem__,
        start=0,
        guess=None,
        ended=False,
        draws=Fresh(),
        addresses=Addressing(),
    )


def rows_along(tables: World, proposals: Tokens) -> tuple[list[Row], list[Row]]:
    contexts = [((0, *proposals)[: i + 1])[-1:] for i in range(len(proposals) + 1)]
    return [normalised(tables.target[c]) for c in contexts], [normalised(tables.draft[c]) for c in contexts]


def lengths(rule: str, tables: World, count: int, vocabulary: int) -> dict[int, Fraction]:
    """The law of the accepted length of a block behind context 0."""
    law: dict[int, Fraction] = defaultdict(Fraction)
    for proposals in product(range(vocabulary), repeat=count):
        target, draft = rows_along(tables, proposals)
        chance = Fraction(1)
        for index, token in enumerate(proposals):
            chance *= draft[index][token]
        if chance:
            for way in judged(block_of(rule, proposals, target, draft), ()):
                law[way.accepted] += chance * way.weight
    return law


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_block_verification_is_never_shorter_in_expectation(seed: int, count: int) -> None:
    tables = world(seed, order=1)
    expected = {
        rule: sum(length * chance for length, chance in lengths(rule, tables, count, 3).items())
        for rule in ("rejection", "block")
    }
    assert expected["block"] >= expected["rejection"]
    if count == 1:
        assert expected["block"] == expected["rejection"], "a block of one leaves nothing to gain"


def test_block_verification_is_longer_somewhere() -> None:
    tables = world(0, order=1, kinds=("positive",))
    means = [sum(n * p for n, p in lengths(rule, tables, 3, 3).items()) for rule in ("rejection", "block")]
    assert means[1] > means[0]


@pytest.mark.parametrize("seed", range(10))
def test_one_proposal_is_accepted_with_the_overlap_of_the_rows(seed: int) -> None:
    tables = world(seed, order=1)
    target, draft = normalised(tables.target[0,]), normalised(tables.draft[0,])
    overlap = sum((min(p, q) for p, q in zip(target, draft, strict=True)), Fraction(0))
    assert lengths("rejection", tables, 1, 3)[1] == overlap
    assert lengths("block", tables, 1, 3)[1] == overlap
    distance = 1 - overlap
    assert lengths("coupled", tables, 1, 3)[1] >= (1 - distance) / (1 + distance)


@pytest.mark.parametrize("seed", range(12))
def test_reading_coins_from_the_longest_length_down_decides_as_reading_all(seed: int) -> None:
    tables = world(seed, order=1, kinds=("positive", "zeros", "equal"))
    for proposals in product(range(3), repeat=3):
        target, draft = rows_along(tables, proposals)
        if any(draft[i][token] == 0 for i, token in enumerate(proposals)):
            continue
        block = block_of("block", proposals, target, draft)
        shares = block_shares(block)
        chances = [block_chance(block, i, shares[i]) for i in (1, 2)] + [shares[3]]
        literal: dict[int, Fraction] = defaultdict(Fraction)
        for heads in product((False, True), repeat=3):
            weight = Fraction(1)
            for fell, chance in zip(heads, chances, strict=True):
                weight *= chance if fell else 1 - chance
            literal[max((i + 1 for i, fell in enumerate(heads) if fell), default=0)] += weight
        law: dict[int, Fraction] = defaultdict(Fraction)
        for way in judged(block, ()):
            law[way.accepted] += way.weight
        assert {n: p for n, p in law.items() if p} == {n: p for n, p in literal.items() if p}


def test_block_verification_by_hand() -> None:
    # w_1 = min(1, (1/2)/(3/4)) = 2/3; R_1 = (2/3 * 3/4 - 1/4)+ + (2/3 * 1/4 - 3/4)+ = 1/4; h_1 = (1/4)/(1/4 + 1/3)
    # = 3/7; w_2 = min(1, 2/3 * (3/4)/(1/4)) = 1 = h_2.
    target, draft = [row(1, 1), row(3, 1), row(1, 1)], [row(3, 1), row(1, 3), row(1, 1)]
    block = block_of("block", (0, 0), target, draft)
    assert block_shares(block) == [1, Fraction(2, 3), 1]
    assert block_chance(block, 1, Fraction(2, 3)) == Fraction(3, 7)
    assert {way.accepted for way in judged(block, ())} == {2}
    # The other second proposal: w_2 = 2/3 * (1/4)/(3/4) = 2/9. Behind length 1 the replacement is 0 for certain.
    ways = list(judged(block_of("block", (0, 1), target, draft), ()))
    assert sum(way.weight for way in ways if way.accepted == 2) == Fraction(2, 9)
    assert [(way.token, way.weight) for way in ways if way.accepted == 1] == [(0, Fraction(7, 9) * Fraction(3, 7))]


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_equal_rows_accept_everything(rule: str) -> None:
    rows = [row(1, 2, 0), row(3, 1, 1), row(0, 1, 4)]
    assert {way.accepted for way in judged(block_of(rule, (1, 0), rows, rows), ())} == {2}


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled", "greedy"])
def test_what_the_target_forbids_is_never_emitted(rule: str) -> None:
    target, draft = [row(0, 1, 1), row(1, 0, 0)], [row(1, 0, 0), row(1, 1, 1)]
    ways = list(judged(block_of(rule, (0,), target, draft), ()))
    assert {way.accepted for way in ways} == {0}
    assert {way.token for way in ways} <= {1, 2}


def test_greedy_takes_the_lowest_of_equal_maxima() -> None:
    target, draft = [row(1, 2, 2), row(2, 1, 2)], [row(0, 1, 1), row(1, 0, 0)]
    (way,) = judged(block_of("greedy", (1,), target, draft), ())
    assert (way.accepted, way.token, way.weight) == (1, 0, Fraction(1))
    (way,) = judged(block_of("greedy", (2,), target, draft), ())
    assert (way.accepted, way.token) == (0, 1)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_proposal_that_its_row_forbids_is_refused(rule: str) -> None:
    block = block_of(rule, (0,), [row(1, 1), row(1, 1)], [row(0, 1), row(1, 1)])
    with pytest.raises(InvalidRowError, match="proposal 0 has probability 0"):
        list(judged(block, ()))


def test_an_empty_residual_is_refused() -> None:
    with pytest.raises(InvalidRowError, match="residual is empty"):
        residual(row(1, 1), row(1, 1))


@pytest.mark.parametrize("seed", range(10))
def test_overlap_and_residual_add_up_to_the_target(seed: int) -> None:
    tables = world(seed, order=1, kinds=("positive", "zeros"))
    for context in tables.target:
        target, draft = normalised(tables.target[context]), normalised(tables.draft[context])
        kept = tuple(min(p, q) for p, q in zip(target, draft, strict=True))
        missing = 1 - sum(kept, Fraction(0))
        rest = residual(target, draft) if missing else (Fraction(0),) * 3
        assert tuple(k + missing * r for k, r in zip(kept, rest, strict=True)) == target
