"""Conducting: in one process and in several, adapters and engines told apart, statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from eredu_conformance.checks.check import Tier
from eredu_conformance.protocol import Blame, ConformanceError, ExpectedFailure, ExpectedFailures, SubjectSource
from eredu_conformance.runner import CheckResult, Outcome, Plan, Report, Status, conduct

THIRD_PARTY = Path(__file__).parents[1] / "protocol" / "third_party_engine.py"


def test_a_right_engine_conforms(right_report: Report) -> None:
    assert right_report.status is Status.CONFORMING
    assert not right_report.failures
    assert right_report.counts[Outcome.PASSED] > 5
    assert right_report.counts[Outcome.SKIPPED] == 1, "the reference doesn't have the rule matching"
    assert {line.verdict for line in right_report.rules} == {"no violation seen"}


def test_a_wrong_engine_does_not(wrong_report: Report) -> None:
    assert wrong_report.status is Status.NOT_CONFORMING
    (failure,) = wrong_report.failures
    assert failure.id == "path.greedy-is-argmax/ties/k3"
    assert failure.seed == 4
    assert failure.history == (3, *failure.history[1:])
    assert failure.case["pair"] == "ties"
    assert {line.rule: line.verdict for line in wrong_report.rules}["verify.greedy-argmax"] == "broken"


def test_several_processes_give_the_same(right_report: Report) -> None:
    told: list[tuple[int, int]] = []

    def progress(_: CheckResult, done: int, total: int) -> None:
        told.append((done, total))

    report = conduct(right_report.source, right_report.plan, jobs=2, progress=progress)
    assert [(r.id, r.outcome, r.message) for r in report.results] == [
        (r.id, r.outcome, r.message) for r in right_report.results
    ]
    assert told == [(i + 1, len(report.results)) for i in range(len(report.results))]


def test_a_wrong_adapter_is_not_judged() -> None:
    report = conduct(SubjectSource(name="wrong_engine:WrongAdapter"), Plan(tier=Tier.QUICK))
    assert report.status is Status.COULD_NOT_RUN
    assert report.smoke.verdict is Blame.ADAPTER
    assert report.results == ()


def test_a_subject_that_does_not_start_is_not_judged() -> None:
    report = conduct(SubjectSource(name="wrong_engine:Absent"), Plan(tier=Tier.QUICK))
    assert report.status is Status.COULD_NOT_RUN
    assert "no such device" in report.smoke.checks[0].message


@pytest.mark.parametrize("name", ["nonesuch", "no.such.module:Factory"])
def test_unknown_subjects_are_errors(name: str) -> None:
    with pytest.raises(ConformanceError, match="subject"):
        conduct(SubjectSource(name=name), Plan(tier=Tier.QUICK))


def _expecting(*patterns: str) -> ExpectedFailures:
    entries = tuple(ExpectedFailure(check=pattern, reason="known") for pattern in patterns)
    return ExpectedFailures(subject="reference", entries=entries)


@pytest.mark.parametrize(
    ("patterns", "status"),
    [
        (("path.greedy-is-argmax/*",), Status.NOT_CONFORMING),  # others pass, so the pattern is too wide
        (("path.greedy-is-argmax/ties/k3",), Status.CONFORMING),
        (("path.greedy-is-argmax/ties/k3", "path.nothing/*"), Status.NOT_CONFORMING),
        ((), Status.NOT_CONFORMING),
    ],
)
def test_expected_failures_are_strict(patterns: tuple[str, ...], status: Status, wrong_report: Report) -> None:
    report = conduct(wrong_report.source, wrong_report.plan, expected=lambda _: _expecting(*patterns))
    assert report.status is status


def test_a_program_of_another_style_is_judged() -> None:
    source = SubjectSource(command=f"python {THIRD_PARTY}")
    report = conduct(source, Plan(tier=Tier.QUICK, checks=("path.greedy-is-argmax/table*/k3", "path.budget/*/k2")))
    assert report.counts[Outcome.FAILED] == 0
    assert report.counts[Outcome.PASSED] >= 3
    assert report.status is Status.CONFORMING
