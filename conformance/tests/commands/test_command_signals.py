"""What a signal or a full disk does to a command: one exit status, no traceback, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEED = "import signal; [signal.signal(number, signal.SIG_DFL) for number in (1, 2, 15)]; "
"""A run under nohup, or in the background of a script, would hand its deafness down."""
PROGRAM = (sys.executable, "-c", f"{HEED}from eredu.commands.entry import run; run()")
SLOW_IMPORTS = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("importing", flush=True)
            time.sleep(30)
sys.meta_path.insert(0, Slow())
from eredu.commands.entry import run
run()
"""
SLOW_PIP = """
import os, sys, time
folder = sys.argv[sys.argv.index("--dest") + 1]
open(os.path.join(folder, "half.whl"), "wb").write(b"x" * 100)
open(os.environ["TOLD"], "w").write(str(os.getpid()))
time.sleep(60)
"""


def start(*command: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("module", ["typer", "eredu_conformance.commands.spec"])
def test_an_interrupt_while_modules_are_imported(module: str) -> None:
    """The library's own, before any command is known, and those of a command that lives outside."""
    with start(sys.executable, "-c", HEED + SLOW_IMPORTS.format(module=module), "spec", "rules") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_fetch_that_is_ended_leaves_no_child(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pip.py").write_text(SLOW_PIP)
    cache, told = tmp_path / "cache", tmp_path / "told"
    places = {"EREDU_CACHE": str(cache), "PYTHONPATH": str(tmp_path / "modules"), "TOLD": str(told)}
    with start(*PROGRAM, "fetch", "smollm2", **places) as process:
        while not (told.is_file() and told.read_text()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        printed = process.communicate(timeout=20)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert printed == ("", "")
    await_end(int(told.read_text()))
    left = list(cache.iterdir())
    assert len(left) == (number == signal.SIGKILL), "nobody cleans up behind a kill but the next run"


def await_end(process: int) -> None:
    for _ in range(200):
        state = Path(f"/proc/{process}/stat")
        try:
            os.kill(process, 0)
            if state.is_file() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {process} lives on")


@pytest.mark.parametrize("form", [[], pytest.param(["--json"], marks=pytest.mark.nightly)])
def test_standard_output_that_is_full_is_one_line(form: list[str]) -> None:
    arguments = ["inspect", "tiny-qwen3.5", *form]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "eredu: error: standard output cannot be written: No space left on device; free some room, or send it "
        "elsewhere\n"
    )
