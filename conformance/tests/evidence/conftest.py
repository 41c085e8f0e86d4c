"""Streams that several tests of the evidence read: a right engine's, and one that draws its bonuses from the draft."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eredu_conformance.faults import fault_named
from eredu_conformance.validator_power import TableSubject
from eredu_conformance.validator_power.designs import LONG
from eredu_reference import PIECES
from eredu_reference.models import TableModel
from eredu_validation.evidence import Columns, SubjectIdentity


def columns(fault: str | None, seed: int, tokens: int) -> Columns:
    target, drafter = (TableModel.random(6, order=1, seed=number) for number in (seed, seed + 100))
    pieces = PIECES if fault is None else fault_named(fault).engine()
    subject = TableSubject(target=target, drafter=drafter, request=LONG, pieces=pieces)
    return subject.columns(seed, tokens)


@pytest.fixture(scope="session")
def right() -> Columns:
    """2,000 tokens of the right engine."""
    return columns(None, 3, 2_000)


@pytest.fixture(scope="session")
def wrong() -> Columns:
    """2,000 tokens of an engine whose bonuses come from the draft."""
    return columns("bonus-from-the-draft", 4, 2_000)


@pytest.fixture
def identity() -> SubjectIdentity:
    return SubjectIdentity(target="t", drafter="d", versions={"mlx": "0.32.4"}, settings={"temperature": 1.0, "k": 3})


@pytest.fixture
def make_columns() -> Callable[[str | None, int, int], Columns]:
    return columns
