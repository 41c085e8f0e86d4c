"""The subjects eredu and reference: what they declare, what they refuse, and that a placement moves no token."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eredu_conformance.checks.expected_output import ExpectedOutput
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.crafted.__main__ import main as write_pair
from eredu_conformance.protocol import (
    Acceptance,
    Feature,
    Finish,
    Request,
    RunOptions,
    Schedule,
    SkippedRunError,
    Subject,
    output_law,
    smoke,
)
from eredu_conformance.subjects.eredu import EreduSubject, one_stream, two_streams
from eredu_conformance.subjects.reference import ReferenceSubject

MAKERS: tuple[Callable[[], Subject], ...] = (EreduSubject, ReferenceSubject)


def _session(make: Callable[[], Subject], directory: Path) -> SubjectSession:
    subject = make()
    return SubjectSession(subject, subject.start(), directory)


def _trial(**options: object) -> Trial:
    pair = crafted_pair("table-near")
    settings = {"max_tokens": 12, "temperature": 1.0, "max_proposals": 3, "seed": 7, **options}
    requests = tuple(
        Request(prompt=prompt, options=RunOptions(**settings))  # type: ignore[arg-type]
        for prompt in (pair.prompt, (2, 0, 3))
    )
    return Trial(pair=pair, requests=requests, schedule=Schedule(lookahead=True))


@pytest.mark.parametrize("make", MAKERS)
def test_smoke_passes(make: Callable[[], Subject], tmp_path: Path) -> None:
    report = smoke(make(), tmp_path)
    assert report.verdict is None, [check for check in report.checks if check.passed is False]
    assert all(check.passed for check in report.checks)


@pytest.mark.parametrize("acceptance", [Acceptance.REJECTION, Acceptance.BLOCK, Acceptance.COUPLED])
def test_a_placement_moves_no_token(acceptance: Acceptance, tmp_path: Path) -> None:
    trial = _trial(acceptance=acceptance)
    answers = [_session(make, tmp_path).answers(trial) for make in (one_stream, two_streams)]
    assert [a.tokens for a in answers[0]] == [a.tokens for a in answers[1]]


@pytest.mark.parametrize("make", MAKERS)
def test_answers_carry_statistics_and_a_trace(make: Callable[[], Subject], tmp_path: Path) -> None:
    result = _session(make, tmp_path).result(_trial())
    assert result.trace
    json.dumps(result.trace)
    for answer in result.answers:
        assert answer.statistics is not None
        assert answer.statistics["emitted"] == len(answer.tokens) == 12
        assert answer.finish is Finish.LENGTH


@pytest.mark.parametrize("make", MAKERS)
def test_cancellation(make: Callable[[], Subject], tmp_path: Path) -> None:
    session, trial = _session(make, tmp_path), _trial()
    full = session.answers(trial)
    cancelled = replace(trial, requests=(replace(trial.requests[0], cancel_after=5), trial.requests[1]))
    first, second = session.answers(cancelled)
    assert first.finish is Finish.CANCELLED
    assert 5 <= len(first.tokens) < 12
    assert first.tokens == full[0].tokens[: len(first.tokens)]
    assert second.tokens == full[1].tokens


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_not_declared_is_refused(make: Callable[[], Subject], tmp_path: Path) -> None:
    session = _session(make, tmp_path)
    place = session.place(crafted_pair("table-near"))
    for options in ({"acceptance": Acceptance.MATCHING}, {"max_proposals": 65}):
        with pytest.raises(SkippedRunError):
            session.subject.run(_trial(**options).run(place))


def test_eredu_takes_no_injected_randomness(tmp_path: Path) -> None:
    session = _session(EreduSubject, tmp_path)
    assert Feature.CHOICES not in session.capabilities.features
    with pytest.raises(SkippedRunError, match="injected"):
        session.subject.run(replace(_trial().alone(0).run(session.place(crafted_pair("table-near"))), choices=()))


def test_the_reference_reads_no_weights(tmp_path: Path) -> None:
    session = _session(ReferenceSubject, tmp_path)
    run = _trial().alone(0).run(session.place(crafted_pair("table-near")))
    config = run.checkpoint.target / "config.json"
    config.write_text(config.read_text().replace("64", "65"))
    with pytest.raises(SkippedRunError, match="none of the suite's crafted checkpoints"):
        ReferenceSubject().run(run)


def test_the_references_law_by_choices(tmp_path: Path) -> None:
    pair = crafted_pair("table-eos")
    options = RunOptions(max_tokens=2, temperature=1.0, max_proposals=1, eos_ids=(4,))
    trial = Trial(pair=pair, requests=(Request(prompt=pair.prompt, options=options),))
    session = _session(ReferenceSubject, tmp_path)
    law = output_law(session.subject, session.capabilities, trial.run(session.place(pair)))
    due = ExpectedOutput(pair.target, trial.requests[0]).law()
    assert law.keys() == due.keys()
    assert all(law[output] == pytest.approx(due[output], abs=1e-12) for output in due)


def test_pairs_can_be_written_from_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_pair(["forced-order-2-wrong-1", str(tmp_path)]) == 0
    assert "prompt  [0, 3, 1]" in capsys.readouterr().out
    assert (tmp_path / "target" / "model.safetensors").exists()
    assert write_pair(["nonesuch", str(tmp_path)]) == 2
    assert "window-16" in capsys.readouterr().err
