"""Engines that are wrong: how they are told, and that a right one is never accused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eredu_conformance.checks.check import Tier
from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.registry import all_checks, check_named
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.faults import fault_named
from eredu_conformance.protocol import Feature
from eredu_conformance.runner.judging import judge
from eredu_conformance.runner.result import Outcome
from eredu_conformance.subjects.reference import ReferenceSubject

MakeSession = Callable[..., SubjectSession]


class Echo(ReferenceSubject):
    """Obeys everything but what is asked for."""

    def run(self, run: Any) -> Any:
        from dataclasses import replace  # noqa: PLC0415

        plain = tuple(replace(r, options=replace(r.options, stop_sequences=(), acceptance=None)) for r in run.requests)
        return super().run(replace(run, requests=plain, choices=None))

    def start(self) -> Any:
        from dataclasses import replace  # noqa: PLC0415

        full = super().start()
        return replace(
            full,
            options=full.options - {"stop_sequences"},
            acceptance=full.acceptance[:1],
            features=full.features - {Feature.CHOICES},
        )


def test_ignored_options_are_no_refusal(tmp_path: Any) -> None:
    subject = Echo()
    session = SubjectSession(subject, subject.start(), tmp_path)
    for name, ignored in (("option", "stop_sequences"), ("call", "the rule block")):
        with pytest.raises(CheckFailure, match=ignored):
            check_named(f"path.undeclared-{name}-is-refused").run(session, 0)


def test_an_engine_that_raises_does_not_conform(session_of: MakeSession) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("out of luck")

    result = judge(check_named("path.greedy-is-argmax/table/k3"), session_of(greedy_length=broken), 0)
    assert result.outcome is Outcome.FAILED
    assert "out of luck" in result.message


def test_failures_shrink(tmp_path: Any) -> None:
    subject = ReferenceSubject(fault_named("first-greedy-proposal-unverified").engine())
    result = judge(
        check_named("path.greedy-is-argmax/cycle-wrong/k3"), SubjectSession(subject, subject.start(), tmp_path), 0
    )
    (request,) = result.case["requests"]
    assert request["options"]["max_tokens"] == 2, "one proposal needs a budget of two"
    assert len(request["prompt"]) == 1


def test_the_right_engine_passes_everything_quick(session_of: MakeSession) -> None:
    session = session_of()
    wrong = []
    for check in all_checks():
        if check.tier is Tier.QUICK and check.family is None:
            result = judge(check, session, 3)
            if result.outcome not in {Outcome.PASSED, Outcome.SKIPPED}:
                wrong.append((check.id, result.message))
    assert not wrong
