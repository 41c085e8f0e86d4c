"""Small worlds for exact laws: pairs of tables drawn from a seed, with the rows that break careless arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from random import Random

Row = tuple[Fraction, ...]
Tokens = tuple[int, ...]
Table = dict[Tokens, Row]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Raw weights of a target and of its drafter, by context of `order` tokens."""

    target: Table
    draft: Table
    order: int


KINDS = ("zeros", "equal", "disjoint", "positive", "certain")
"""Kinds of rows: independent ones with zeros on either side; p = q; a drafter that proposes only what the target
forbids; rows without zeros; a target that is certain."""


def world(seed: int, *, vocabulary: int = 3, order: int = 2, kinds: tuple[str, ...] = KINDS) -> World:
    """A pair of tables whose contexts take turns between kinds of rows."""
    random, target, draft = Random(seed), {}, {}  # noqa: S311
    turns = _turns(random, kinds)
    for context in product(range(vocabulary), repeat=order):
        target[context], draft[context] = _rows(next(turns), random, vocabulary)
    return World(target, draft, order)


def _turns(random: Random, kinds: tuple[str, ...]) -> Iterator[str]:
    while True:
        yield from random.sample(kinds, len(kinds))


def _rows(kind: str, random: Random, vocabulary: int) -> tuple[Row, Row]:
    target, draft = _row(random, vocabulary, lowest=0), _row(random, vocabulary, lowest=0)
    if kind == "equal":
        draft = target
    elif kind == "positive":
        target, draft = _row(random, vocabulary, lowest=1), _row(random, vocabulary, lowest=1)
    elif kind == "certain":
        target = _one_hot(random.randrange(vocabulary), vocabulary)
    elif kind == "disjoint":
        target = tuple(weight * (token > 0) for token, weight in enumerate(_row(random, vocabulary, lowest=1)))
        draft = _one_hot(0, vocabulary)
    return target, draft


def _row(random: Random, vocabulary: int, *, lowest: int) -> Row:
    """Fifths from `lowest` to 5, at least one of them above 0; none above 1, so that repetition penalties are exact."""
    weights = [random.randint(lowest, 5) for _ in range(vocabulary)]
    if not any(weights):
        weights[random.randrange(vocabulary)] = 1
    return tuple(Fraction(weight, 5) for weight in weights)


def _one_hot(token: int, vocabulary: int) -> Row:
    return tuple(Fraction(int(token == index)) for index in range(vocabulary))
