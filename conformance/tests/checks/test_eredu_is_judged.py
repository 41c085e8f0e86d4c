"""The ordinary suite judges eredu in every test run: unit tests leave to it what its quick checks see."""

from __future__ import annotations

import pytest

from eredu_conformance.checks.check import Check, Kind, Tier
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.runner import Plan
from eredu_conformance.runner.judging import judge
from eredu_conformance.runner.result import Outcome
from eredu_conformance.subjects.eredu import EreduSubject

KINDS = (Kind.PATH, Kind.LAW, Kind.STATE, Kind.TRACE)  # lock-step has a folder of its own: `tests/stateful`
SUBJECT = EreduSubject()
CAPABILITIES = SUBJECT.start()
CHECKS = [check for check in Plan(tier=Tier.QUICK, kinds=KINDS).select() if check.needs.obstacle(CAPABILITIES) is None]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SubjectSession:
    return SubjectSession(SUBJECT, CAPABILITIES, tmp_path_factory.mktemp("session"))


def test_the_quick_tier_concerns_eredu() -> None:
    assert {check.kind for check in CHECKS} == set(KINDS)
    assert len(CHECKS) > 200


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=pytest.mark.nightly) if "window-4" in check.id or "window-6" in check.id else check
        for check in CHECKS
    ],
    ids=lambda check: check.id,
)
def test_no_rule_is_seen_broken(check: Check, session: SubjectSession) -> None:
    result = judge(check, session, 0)
    assert result.outcome in {Outcome.PASSED, Outcome.SKIPPED}, result.message
