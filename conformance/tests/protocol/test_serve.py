"""Any Python subject becomes a program, whatever it prints."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import (
    Answer,
    Capabilities,
    Checkpoint,
    Errored,
    Finish,
    MessageError,
    Ok,
    ProgramSubject,
    Request,
    Run,
    RunResult,
    Skipped,
    SkippedRunError,
    attempt,
    serve,
    subject_named,
)
from eredu_conformance.protocol.messages import encode, run_command, start_command, stop_command


class Parrot:
    """Answers the prompt; id 1 makes it skip, id 2 makes it raise, and it prints whatever it does."""

    def __init__(self) -> None:
        self.stopped = False

    def start(self) -> Capabilities:
        print("starting")
        return Capabilities(name="parrot", version="1", max_batch=2)

    def run(self, run: Run) -> RunResult:
        print("running")
        if 1 in run.requests[0].prompt:
            raise SkippedRunError("not 1")
        if 2 in run.requests[0].prompt:
            raise ZeroDivisionError("2")
        return RunResult(answers=tuple(Answer(tokens=r.prompt, finish=Finish.LENGTH) for r in run.requests))

    def stop(self) -> None:
        self.stopped = True


def run_of(directory: Path, *prompts: tuple[int, ...]) -> Run:
    place = crafted_pair("table").write(directory)
    return Run(checkpoint=Checkpoint(target=place.target), requests=tuple(Request(prompt=p) for p in prompts))


def talk(*messages: dict[str, Any] | str) -> tuple[int, list[dict[str, Any]], Parrot]:
    lines = [m if isinstance(m, str) else encode(m) for m in messages]
    answers, parrot = io.StringIO(), Parrot()
    status = serve(parrot, commands=io.StringIO("\n".join(lines) + "\n"), answers=answers)
    return status, [json.loads(line) for line in answers.getvalue().splitlines()], parrot


def test_serve_answers_in_order(tmp_path: Path) -> None:
    runs = [run_command(n, run_of(tmp_path, (n,))) for n in range(3)]
    status, replies, parrot = talk(start_command(), *runs, stop_command())
    assert status == 0
    assert parrot.stopped
    assert [reply.get("outcome", "start") for reply in replies] == ["start", "ok", "skipped", "errored"]
    assert [reply.get("seq") for reply in replies] == [None, 0, 1, 2]
    assert replies[3]["message"] == "ZeroDivisionError: 2"
    assert "test_serve.py" in replies[3]["detail"]


def test_serve_refuses_nonsense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("hello", "[]", '{"cmd": "dance"}', '{"cmd": "start", "version": 9}'):
        assert talk(line)[0] == 2
    assert talk(run_command(1, run_of(tmp_path, (0,))))[0] == 2, "a run before start"
    assert "not a command of protocol 1" in capsys.readouterr().err


def test_serve_reports_a_misshapen_run() -> None:
    _, replies, _ = talk(start_command(), '{"cmd": "run", "seq": 3, "requests": []}', stop_command())
    assert replies[1]["outcome"] == "errored"
    assert "run lacks ['checkpoint']" in replies[1]["message"]


def test_prints_do_not_reach_the_wire(tmp_path: Path) -> None:
    program = ProgramSubject(
        [sys.executable, "-m", "eredu_conformance.protocol", "test_serve:Parrot"],
        environment={"PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path])},
    )
    capabilities = program.start()
    try:
        outcome = attempt(program, capabilities, run_of(tmp_path, (3, 0), (0,)))
        assert isinstance(outcome, Ok)
        assert [answer.tokens for answer in outcome.result.answers] == [(3, 0), (0,)]
        assert attempt(program, capabilities, run_of(tmp_path, (1,))) == Skipped(reason="not 1")
        failed = attempt(program, capabilities, run_of(tmp_path, (2,)))
        assert isinstance(failed, Errored)
        assert failed.message == "ZeroDivisionError: 2"
    finally:
        program.stop()


def test_subject_named() -> None:
    assert subject_named("test_serve:Parrot").start().name == "parrot"
    with pytest.raises(MessageError, match=r"expected package\.module:Factory"):
        subject_named("builtins")
