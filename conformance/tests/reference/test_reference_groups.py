"""Several requests in rounds of the reference: groups occur, members differ, and nobody can tell from a member."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eredu_conformance.faults import fault_named
from eredu_conformance.harness.cases import Case, near_case, table_case
from eredu_conformance.oracles.experiment import Broken
from eredu_conformance.oracles.groups import (
    EVER,
    StumbleError,
    alone,
    company,
    law_is_the_product,
)
from eredu_reference import PIECES, AcceptanceRule, Cancelled, Report, Request, decode_plain, decode_together
from eredu_reference.decoding import Decoding, Observer, no_observer
from eredu_reference.models import ScriptedModel


def sizes(case: Case, **options: Any) -> tuple[list[Report | Exception], list[int]]:
    """The outcomes of a company, and the sizes of its groups."""
    counted: list[int] = []

    def rows(entries: Any, place: int) -> Any:
        if place == 0:
            counted.append(len(entries))
        return entries[place]

    pieces = replace(PIECES, member_rows=rows)
    outcomes = decode_together(case.target, case.drafter, company(case), schedule=EVER, pieces=pieces, **options)
    return outcomes, counted


def reports(outcomes: list[Report | Exception]) -> list[Report]:
    assert all(isinstance(each, Report) for each in outcomes), outcomes
    return [each for each in outcomes if isinstance(each, Report)]


# rule: scheduling.group-changes-nothing
def test_a_company_is_submitted_together_until_its_members_end() -> None:
    outcomes, counted = sizes(table_case(0))
    assert counted[0] == 4
    assert counted == sorted(counted, reverse=True)
    assert counted[-1] < 4
    assert len({len(each.rounds) for each in reports(outcomes)}) > 1


# rule: scheduling.members-end-alone
def test_members_of_one_group_accept_different_counts_and_end_apart() -> None:
    outcomes, _ = sizes(near_case(1).with_request(eos_ids=frozenset({1})))
    first = [each.rounds[0].accepted for each in reports(outcomes)]
    assert len(set(first)) > 1
    assert len({each.finish for each in reports(outcomes)} | {len(each.tokens) for each in reports(outcomes)}) > 2


def test_a_coupled_or_greedy_member_is_plain_decoding() -> None:
    case = near_case(3)
    for asked, seen in zip(company(case.greedy()), reports(sizes(case.greedy())[0]), strict=True):
        assert seen.tokens == decode_plain(case.target, asked).tokens
    assert company(case)[2].acceptance is AcceptanceRule.COUPLED
    assert reports(sizes(case)[0])[2].tokens == decode_plain(case.target, company(case)[2]).tokens


# rule: scheduling.members-end-alone
@pytest.mark.parametrize("error", [Cancelled, StumbleError])
@pytest.mark.parametrize("event", ["draft", "submit", "branch", "wait", "resolve", "commit", "publish"])
def test_a_member_that_leaves_anywhere_leaves_the_others_alone(error: type[Exception], event: str) -> None:
    case = near_case(2)

    left: set[int] = set()

    def leave(seen: str, state: Decoding) -> None:
        if seen == event and (state.output or event == "branch"):
            left.add(leaver)
            raise error

    for leaver in range(4):
        observers: list[Observer] = [no_observer] * 4
        observers[leaver] = leave
        outcomes, _ = sizes(case, observers=observers)
        assert isinstance(outcomes[leaver], Report) == (error is Cancelled or leaver not in left)
        for number, request in enumerate(company(case)):
            outcome = outcomes[number]
            if number != leaver:
                assert isinstance(outcome, Report)
                assert outcome.as_dict() == alone(case, request, PIECES)
    assert len(left) >= 3, "one of the members is too short for a branch"


def test_a_row_that_is_no_distribution_fails_its_member_alone() -> None:
    """One target for all: its rows are NaN where only the longest output comes."""
    script = ScriptedModel(4, 1, tuple(range(4)) * 2).with_entry(6, (float("nan"),) * 4)
    requests = [Request(prompt=(0,), max_tokens=count) for count in (3, 8)]
    short, long = decode_together(script, None, requests)
    assert isinstance(short, Report)
    assert len(short.tokens) == 3
    assert "NaN" in str(long)


# rule: scheduling.group-changes-nothing
@pytest.mark.parametrize("rule", [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED])
def test_the_joint_law_is_a_product_and_is_not_where_members_share_numbers(rule: AcceptanceRule) -> None:
    law_is_the_product(PIECES, 1, rule)
    with pytest.raises(Broken, match="total variation"):
        law_is_the_product(fault_named("draws-of-the-first-member").engine(), 1, rule)
