"""Engines that are wrong in one place, each caught by the kind of check that is there for it, with a small history.

The engines are the reference with one piece replaced; the planted faults of the catalogue have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.registry import all_checks, check_named
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.faults import fault_named
from eredu_conformance.protocol import Feature
from eredu_conformance.runner.judging import judge
from eredu_conformance.runner.result import Outcome
from eredu_conformance.subjects.reference import ReferenceSubject

MakeBench = Callable[..., SubjectSession]

CAUGHT = {
    "first-greedy-proposal-unverified": "path.greedy-is-argmax/table/k3",
    "greedy-breaks-ties-upwards": "path.greedy-is-argmax/ties/k3",
    "coupled-forgives-one": "path.coupled-equals-plain/table/k2",
    "engine-wide-stream": "path.alone-or-together/table-near/rejection",
    "seed-ignored": "path.seed-matters/rejection",
    "one-root-for-a-call": "path.call-seed-differs-by-request/rejection",
    "promoted-q-of-its-neighbour": "path.lookahead/table-near/block",
    "coin-is-draft-noise": "path.equals-reference/table/rejection/k1",
    "replacement-shares-the-target-role": "path.equals-reference/table/rejection/k3",
    "q-of-raw-logits": "law.exact/law-order-2/filters/rejection/k2/t3",
    "residual-is-the-target": "law.joint/law-sure/t1/rejection/k2/n192",
    "residual-not-normalised": "law.joint/law-sure/t1/block/k2/n192",
    "lenient-acceptance": "law.exact/law-order-2/t1/rejection/k2/t3",
    "block-residual-unweighted": "law.exact/law-order-2/t1/block/k2/t3",
    "greedy-draft-called-sampled": "law.joint/law-even/t1/rejection/k2/n192",
    "q-missing-from-the-ratio": "law.joint/law-even/t1/rejection/k2/n192",
    "block-stops-at-first-failure": "law.joint/law-even/t1/block/k2/n192",
    "one-coin-a-block": "law.joint/law-sure/t1/rejection/k2/n192",
    "accepts-behind-a-rejection": "law.joint/law-sure/t1/rejection/k2/n192",
    "first-proposal-unverified": "law.joint/law-sure/t1/rejection/k2/n192",
    "bonus-from-the-draft": "law.joint/law-sure/t1/block/k2/n192",
}
"""The check that must see a fault of the catalogue, by the fault's name."""


@pytest.mark.parametrize(("fault", "check"), CAUGHT.items())
def test_faults_are_seen_from_outside(fault: str, check: str, tmp_path: Any) -> None:
    subject = ReferenceSubject(fault_named(fault).engine())
    result = judge(check_named(check), SubjectSession(subject, subject.start(), tmp_path), 0)
    assert result.outcome is Outcome.FAILED, result.message
    assert result.history or "samples" in result.case
    assert result.case, "a failure says which case it saw"


@pytest.mark.parametrize("check", sorted(set(CAUGHT.values())))
def test_the_right_engine_passes_the_same_checks(check: str, bench_of: MakeBench) -> None:
    result = judge(check_named(check), bench_of(), 0)
    assert result.outcome is Outcome.PASSED, result.message


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


def test_an_engine_that_raises_does_not_conform(bench_of: MakeBench) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("out of luck")

    result = judge(check_named("path.greedy-is-argmax/table/k3"), bench_of(greedy_length=broken), 0)
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


def test_the_right_engine_passes_everything_quick(bench_of: MakeBench) -> None:
    session = bench_of()
    wrong = []
    for check in all_checks():
        if check.tier.value == "quick" and check.kind.value in {"path", "law", "state"}:
            result = judge(check, session, 3)
            if result.outcome not in {Outcome.PASSED, Outcome.SKIPPED}:
                wrong.append((check.id, result.message))
    assert not wrong
