"""Shrinking: what is left still fails, is small, and is found within its bound."""

from __future__ import annotations

from eredu_conformance.checks.shrinking import shrink
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Request, RunOptions, Schedule

PAIR = crafted_pair("position")


def _trial() -> Trial:
    requests = tuple(
        Request(prompt=(0, 3, 2, 1, 4, 5), options=RunOptions(max_tokens=20 + index, max_proposals=6))
        for index in range(4)
    )
    return Trial(pair=PAIR, requests=requests, schedule=Schedule(lookahead=True))


def test_the_smallest_is_found() -> None:
    def fails(trial: Trial) -> bool:
        return any(r.options.max_tokens >= 7 and r.options.max_proposals >= 2 and 4 in r.prompt for r in trial.requests)

    smallest = shrink(_trial(), fails, most_attempts=60)
    assert fails(smallest)
    assert len(smallest.requests) == 1
    assert smallest.requests[0].options.max_tokens == 7
    assert smallest.requests[0].options.max_proposals == 2
    assert smallest.requests[0].prompt == (0, 4, 5), "the anchor of a position law stays"
    assert smallest.schedule == Schedule()


def test_what_needs_company_keeps_it() -> None:
    smallest = shrink(_trial(), lambda trial: len(trial.requests) > 1 and trial.schedule.lookahead, most_attempts=60)
    assert len(smallest.requests) == 2
    assert smallest.schedule.lookahead


def test_the_bound_holds() -> None:
    calls = []

    def fails(trial: Trial) -> bool:
        calls.append(trial)
        return False

    trial = _trial()
    assert shrink(trial, fails, most_attempts=5) is trial
    assert len(calls) == 5


def test_descriptions_leave_out_what_is_neutral() -> None:
    described = _trial().alone(0).describe()
    assert described["schedule"] == {"lookahead": True}
    assert described["requests"][0]["options"] == {"max_tokens": 20, "max_proposals": 6}
