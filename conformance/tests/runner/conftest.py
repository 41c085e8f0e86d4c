"""A report of a short run, right and wrong."""

from __future__ import annotations

import pytest

from eredu_conformance.checks.check import Kind, Tier
from eredu_conformance.protocol import SubjectSource
from eredu_conformance.runner import Plan, Report, conduct

CHECKS = ("path.budget/*", "path.greedy-is-argmax/*cle*", "path.greedy-is-argmax/ties/k3", "path.prefill-chunk/*")


@pytest.fixture(scope="session")
def right_report() -> Report:
    """The reference, which is right."""
    return conduct(SubjectSource(name="reference"), Plan(tier=Tier.QUICK, checks=CHECKS, seed=4))


@pytest.fixture(scope="session")
def wrong_report() -> Report:
    """An engine that breaks ties upwards."""
    source = SubjectSource(name="wrong_engine:WrongEngine")
    return conduct(source, Plan(tier=Tier.QUICK, checks=CHECKS, kinds=(Kind.PATH,), seed=4))
