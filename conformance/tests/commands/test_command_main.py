from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import eredu
from eredu.commands import generate as generate_module
from eredu.commands.main import TRACEBACK_VARIABLE
from eredu_conformance.crafted import PairDirectories

CommandLine = Callable[..., Any]
PROGRAM = (sys.executable, "-c", "from eredu.commands.entry import run; run()")


def in_a_process(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, *arguments], input=stdin, capture_output=True, check=False, timeout=120)


@pytest.mark.parametrize("command", [[], ["fetch"], ["inspect"], ["generate"], ["bench"]])
def test_help(eredu_command: CommandLine, command: Sequence[str]) -> None:
    ran = eredu_command(*command, "--help")
    assert ran.status == 0
    assert "Usage: eredu" in ran.stdout
    assert not ran.stderr


def test_help_documents_the_exit_statuses(eredu_command: CommandLine) -> None:
    text = " ".join(eredu_command("--help").stdout.split())
    for words in ("0 done", "1 a check failed", "2 could not run", "130 interrupted"):
        assert words in text


def test_version(eredu_command: CommandLine) -> None:
    assert eredu_command("--version").stdout == f"eredu {eredu.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["--frobnicate"], "No such option: --frobnicate"),
        (["generate", "--model", "m", "--frobnicate", "hello"], "No such option: --frobnicate"),
        (["generate", "hello"], "Missing option '--model'"),
        (["generate", "--model", "m"], "Missing argument"),
        (["bench"], "Missing option '--model'"),
    ],
)
def test_usage_errors(eredu_command: CommandLine, arguments: Sequence[str], said: str) -> None:
    ran = eredu_command(*arguments)
    assert ran.status == 2
    assert said in ran.stderr
    assert not ran.stdout


def test_an_unforeseen_error_is_one_message(eredu_command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> str:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(generate_module, "read_prompt", fail)
    ran = eredu_command("generate", "--model", "m", "hello")
    assert ran.status == 2
    assert ran.stderr.startswith("eredu: error: ZeroDivisionError: by zero (nobody foresaw this")
    assert ran.stderr.count("\n") == 1
    monkeypatch.setenv(TRACEBACK_VARIABLE, "1")
    with pytest.raises(ZeroDivisionError):
        eredu_command("generate", "--model", "m", "hello")


def test_the_program_refuses_in_one_line() -> None:
    ran = in_a_process("generate", "--model", "/no/such/place", "hello")
    assert ran.returncode == 2
    assert ran.stdout == b""
    assert ran.stderr.startswith(b"eredu: error: '/no/such/place' is neither a path that exists")
    assert ran.stderr.count(b"\n") == 1


def test_the_program_generates(pair: PairDirectories, eredu_command: CommandLine) -> None:
    arguments = ("generate", "-m", str(pair.target), "--assistant", str(pair.draft), "--max-tokens", "12", "-")
    ran = in_a_process(*arguments, stdin=b"abc")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.decode() == eredu_command(*arguments, stdin=b"abc").stdout
    assert len(ran.stdout) == 13


def test_interrupt_while_waiting_for_a_prompt() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "generate", "--model", "m", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        while (status := process.poll()) is None:
            process.send_signal(signal.SIGINT) if _reads_input(process.pid) else None
            time.sleep(0.05)
        _, said = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert status == 130
    assert b"Traceback" not in said


def _reads_input(pid: int) -> bool:
    """Whether the process sleeps in a read (Linux); elsewhere, whether it had two seconds to get there."""
    try:
        return "pipe" in Path(f"/proc/{pid}/wchan").read_text(encoding="utf-8")
    except OSError:
        time.sleep(2)
        return True
