"""The exact law by enumeration: every outcome of every draw, with its weight."""

from __future__ import annotations

import numpy as np
import pytest

from eredu_conformance.harness.enumeration import (
    EnumeratingSource,
    NotEnumerable,
    TooManyPaths,
    enumerate_law,
)
from eredu_reference.sources import Address, Role

FIRST, SECOND = Address(Role.TARGET, 0), Address(Role.TARGET, 1)


def test_enumeration_of_independent_draws_is_the_product() -> None:
    rows = np.array([0.25, 0.75]), np.array([0.5, 0.3, 0.2])

    def experiment(source: EnumeratingSource) -> tuple[int, int]:
        return source.categorical(FIRST, rows[0]), source.categorical(SECOND, rows[1])

    seen = enumerate_law(experiment)
    assert {key: pytest.approx(rows[0][key[0]] * rows[1][key[1]]) for key in seen} == seen
    assert len(seen) == 6


def test_enumeration_keeps_the_number_of_an_address() -> None:
    """One address read twice is one number: u < 0.5 and u < 0.25 are not independent."""

    def experiment(source: EnumeratingSource) -> tuple[bool, bool]:
        return source.uniform(FIRST).below(0.5), source.uniform(FIRST).below(1.0, 4.0)

    assert enumerate_law(experiment) == {(True, True): 0.25, (True, False): 0.25, (False, False): 0.5}


def test_enumeration_follows_the_edges_of_a_coin() -> None:
    assert enumerate_law(lambda source: source.uniform(FIRST).below(0.0, 0.5)) == {False: 1.0}
    assert enumerate_law(lambda source: source.uniform(FIRST).below(0.5, 0.5)) == {True: 1.0}


def test_enumeration_never_draws_the_impossible() -> None:
    """Sums that round to less than 1 leave nothing to an id of probability 0, however narrow the interval is."""
    row = np.array([0.1] * 10 + [0.0])
    assert float(np.cumsum(row)[-1]) < 1.0

    def experiment(source: EnumeratingSource) -> int:
        if source.uniform(FIRST).below(1 - 1e-12):
            return 0
        return source.categorical(FIRST, row)

    assert set(enumerate_law(experiment)) == {0, 9}


def test_enumeration_refuses_what_it_cannot_know() -> None:
    with pytest.raises(NotEnumerable):
        enumerate_law(lambda source: source.uniform(FIRST).value)
    with pytest.raises(TooManyPaths):
        enumerate_law(
            lambda source: tuple(source.uniform(Address(Role.TARGET, i)).below(0.5) for i in range(9)), most_paths=100
        )
