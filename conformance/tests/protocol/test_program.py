"""The runner survives any program: crashes, silence, nonsense; and says what happened, where."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import (
    Answer,
    Checkpoint,
    Errored,
    Finish,
    ProgramSubject,
    Request,
    Run,
    SkippedRunError,
    SubjectError,
    attempt,
)
from eredu_conformance.protocol.errors import ProgramExitedError, ProgramGarbageError, ProgramTimedOutError

Program = Callable[..., ProgramSubject]

PREAMBLE = """
import json, sys, time, os
def say(message): print(json.dumps(message), flush=True)
def ask(): return json.loads(sys.stdin.readline())
def start():
    ask(); say({"ok": True, "version": 1, "capabilities": {"name": "x", "version": "1", "architectures": ["llama"]}})
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made: list[ProgramSubject] = []

    def make(body: str, *, timeout_s: float = 20.0) -> ProgramSubject:
        script = tmp_path / "program.py"
        script.write_text(PREAMBLE + textwrap.dedent(body), encoding="utf-8")
        made.append(ProgramSubject([sys.executable, "-S", str(script)], start_timeout_s=20, run_timeout_s=timeout_s))
        return made[-1]

    yield make
    for subject in made:
        subject.stop()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(
        checkpoint=Checkpoint(target=crafted_pair("table").write(tmp_path).target), requests=(Request(prompt=(0,)),)
    )


def test_answers(program: Program, run: Run) -> None:
    subject = program("""
        start()
        for n in range(2):
            m = ask(); assert m["cmd"] == "run" and m["requests"][0]["prompt"] == [0]
            say({"seq": m["seq"], "outcome": "ok", "answers": [{"tokens": [n], "finish": "length"}]})
        m = ask(); say({"seq": m["seq"], "outcome": "skipped", "reason": "tired"})
        m = ask(); say({"seq": m["seq"], "outcome": "errored", "message": "boom", "detail": "here"})
        assert ask() == {"cmd": "stop"}
    """)
    capabilities = subject.start()
    assert (capabilities.name, capabilities.max_batch, capabilities.options) == ("x", 1, frozenset())
    for n in range(2):
        assert subject.run(run).answers == (Answer(tokens=(n,), finish=Finish.LENGTH),)
    with pytest.raises(SkippedRunError, match="tired"):
        subject.run(run)
    assert attempt(subject, capabilities, run) == Errored(message="boom", detail="here")


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        ("start(); ask(); sys.exit(7)", ProgramExitedError, "ended with status 7 before it answered run 1"),
        ("start(); ask(); os.abort()", ProgramExitedError, "ended with status -6"),
        ("start(); ask(); print('tokens:', 3, flush=True); ask()", ProgramGarbageError, "line 2 .* 'tokens: 3'"),
        ("start(); ask(); print(flush=True); ask()", ProgramGarbageError, "line 2 .* is not JSON: ''"),
        ("start(); ask(); say([1]); ask()", ProgramGarbageError, "is no JSON object"),
        ("start(); ask(); say({'seq': 9, 'outcome': 'skipped', 'reason': ''}); ask()", ProgramGarbageError, "seq 9;"),
        ("start(); ask(); sys.stdout.write('{'); sys.stdout.flush()", ProgramGarbageError, "cut off"),
        (r"start(); ask(); os.write(1, b'\xff\n'); ask()", ProgramGarbageError, "not UTF-8"),
        ("start(); ask(); say({'seq': 1, 'outcome': 'ok', 'answers': 'a' * 999})", ProgramGarbageError, r"a\.\.\."),
    ],
)
def test_breaches(program: Program, run: Run, body: str, kind: type[SubjectError], complaint: str) -> None:
    subject = program(body)
    subject.start()
    with pytest.raises(kind, match=complaint):
        subject.run(run)


def test_silence(program: Program, run: Run) -> None:
    subject = program("start(); ask(); print('stuck here', file=sys.stderr, flush=True); time.sleep(60)", timeout_s=0.5)
    subject.start()
    with pytest.raises(ProgramTimedOutError, match=r"did not answer run 1 within 0\.5 s") as error:
        subject.run(run)
    assert "stuck here" in error.value.detail


def test_program_is_started_anew_after_a_breach(program: Program, run: Run, tmp_path: Path) -> None:
    flag = tmp_path / "crashed"
    subject = program(f"""
        start(); m = ask()
        if not os.path.exists({str(flag)!r}):
            open({str(flag)!r}, "w"); print("first time", file=sys.stderr, flush=True); sys.exit(1)
        say({{"seq": m["seq"], "outcome": "ok", "answers": [{{"tokens": [], "finish": "length"}}]}})
        ask()
    """)
    capabilities = subject.start()
    first = attempt(subject, capabilities, run)
    assert isinstance(first, Errored)
    assert first.detail == "first time\n"
    assert subject.run(run).answers[0].tokens == ()


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ('{"ok": True, "version": 2, "capabilities": {"name": "", "version": "", "architectures": []}}', "version 2"),
        ('{"ok": True, "version": 1, "capabilities": {"version": "", "architectures": []}}', r"lacks \['name'\]"),
        (
            '{"ok": True, "version": 1, "capabilities": {"name": "", "version": "", "architectures": [], "f": 1}}',
            "unknown",
        ),
    ],
)
def test_wrong_declarations(program: Program, reply: str, complaint: str) -> None:
    with pytest.raises(ProgramGarbageError, match=complaint):
        program(f"ask(); say({reply}); ask()").start()


def test_no_program() -> None:
    with pytest.raises(SubjectError, match="could not be started"):
        ProgramSubject(["/nonexistent/engine"]).start()
