"""The oracles themselves: that they see what they say, and that they do not borrow from what they judge."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import eredu_conformance.oracles as package
from eredu_conformance.harness.enumeration import (
    EnumeratingSource,
    NotEnumerable,
    TooManyPaths,
    enumerate_law,
    total_variation,
)
from eredu_conformance.oracles import law
from eredu_conformance.oracles.cases import Case, table_case
from eredu_conformance.oracles.state import fresh_cache
from eredu_conformance.oracles.trace import check_trace
from eredu_conformance.oracles.verdict import Broken, Verdict, judge_cases
from eredu_reference import PIECES, AcceptanceRule, Schedule, decode_plain, decode_speculative
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


def test_plain_law_is_the_law_of_plain_decoding() -> None:
    """The chain rule against an enumeration of the plain loop, two ways to one law."""
    case = table_case(4).with_request(max_tokens=3, eos_ids=frozenset({2}))
    seen = enumerate_law(lambda source: decode_plain(case.target, case.request, source).tokens)
    expected = law.plain_law(case)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-12)
    assert total_variation(seen, expected) < 1e-12


def test_total_variation() -> None:
    assert total_variation({"a": 0.5, "b": 0.5}, {"a": 0.25, "c": 0.75}) == 0.75


def test_a_verdict_names_the_first_break() -> None:
    def breaks() -> None:
        raise Broken("two is not three")

    assert judge_cases([("fine", lambda: None), ("numbers", breaks)]) == Verdict(
        killed=True, evidence="numbers: Broken: two is not three"
    )
    assert not judge_cases([("fine", lambda: None)]).killed


def test_fresh_cache_equals_the_plain_cache() -> None:
    case = table_case(3)
    plain = decode_plain(case.target, case.request)
    inputs = (*case.request.prompt, *plain.tokens)[:-1]
    assert fresh_cache(case.target, inputs).content() == plain.cache.content()


@pytest.mark.parametrize("position", range(14))
def test_trace_oracle_misses_no_event(position: int) -> None:
    """Any event that is removed from a correct log, or doubled in it, is missed or found superfluous."""
    case, schedule = table_case(1), Schedule(adaptive_window=None)
    events = list(decode_speculative(case.target, case.drafter, case.request, schedule=schedule).events)
    check_trace(case, schedule, events)
    for wrong in (events[:position] + events[position + 1 :], [*events[: position + 1], *events[position:]]):
        with pytest.raises(Broken):
            check_trace(case, schedule, wrong)


ORACLE_FILES = sorted(Path(package.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", ORACLE_FILES, ids=lambda path: path.stem)
def test_no_oracle_imports_a_part_that_it_judges(path: Path) -> None:
    """Models, caches, rows, sources and plain decoding are shared; the engine's parts are not."""
    judged = {"acceptance", "addresses", "clipping", "deciding", "drafting", "resolution", "settlement", "statistics"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eredu_reference."):
            assert node.module is not None
            assert node.module.split(".")[1] not in judged | {"pieces", "engine", "terminal", "text", "verification"}


def test_law_oracle_sees_small_differences() -> None:
    """A ratio that is off by one millionth moves the law by more than the tolerance."""
    target, drafter = law._tables(0, 2, zeros=0.0)
    case = Case("two", target, drafter, law._request(AcceptanceRule.REJECTION, 3))
    slightly = replace(PIECES, accepts=lambda coin, p, q: coin.below((1 + 1e-6) * p, q))
    with pytest.raises(Broken, match="total variation"):
        law._same_law(case, slightly, law.OFF)
    law._same_law(case, PIECES, law.OFF)
