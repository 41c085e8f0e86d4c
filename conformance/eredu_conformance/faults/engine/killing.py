"""Faults of eredu meet their tests: in processes of their own, which plant the fault before anything else runs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eredu.files.json_reading import read_json
from eredu_conformance.faults.engine.fault import EngineFault
from eredu_conformance.faults.engine.seam import Seam, plant

TESTS_FAILED = 1
"""What pytest exits with where a test failed, and Python where pytest itself did."""
CHECKS_FAILED = 1
"""The same of `eredu conformance`."""
NOT_PLANTED = 4
"""What a process exits with whose fault could not be planted."""
_EARLY = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Whoever plants a fault imports eredu before pytest starts, and with it a plugin of pytest or two."""
COMMAND = ("-c", "from eredu.commands.entry import run; run()")
"""What Python runs for `eredu`."""
_START = f"from {__name__} import plant_from; plant_from({{file!r}})\n"
"""The module that Python imports first in every process that finds it, those that a command starts included."""


@dataclass(frozen=True, slots=True)
class EngineKill:
    """What became of a planted fault.

    Attributes:
        killed: Whether its test failed.
        output: The end of what pytest said.
    """

    killed: bool
    output: str


def run_killer(fault: EngineFault, root: Path, *, timeout_s: float = 300) -> EngineKill:
    """Run the fault's test on eredu with the fault.

    Args:
        fault: The fault.
        root: The checkout of the repository that is installed.
        timeout_s: Seconds after which a test that hangs counts as failed.

    Raises:
        RuntimeError: The fault could not be planted or the test not run, which says nothing about the fault.
    """
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "", *_EARLY, fault.killer]
    try:
        ran = _run(fault, root, command, timeout_s)
    except subprocess.TimeoutExpired:
        return EngineKill(killed=True, output=f"no end within {timeout_s:g} s")
    said = (ran.stdout + ran.stderr)[-4000:]
    failed = ran.returncode == TESTS_FAILED and f"\nFAILED {fault.killer}" in ran.stdout
    if ran.returncode != 0 and not failed:
        raise RuntimeError(f"pytest could not run {fault.killer} for {fault.name}:\n{said}")
    return EngineKill(killed=failed, output=said)


def seen_by_kind(fault: EngineFault, root: Path, *, timeout_s: float = 1200) -> list[str]:
    """Hold eredu with the fault to the quick checks of its kind; return those that do not pass.

    Args:
        fault: A fault with a kind.
        root: The checkout of the repository that is installed.
        timeout_s: Seconds that the checks may take. Raises `subprocess.TimeoutExpired` beyond.

    Raises:
        RuntimeError: The command could not run, which says nothing about the fault.
    """
    with tempfile.TemporaryDirectory(prefix="eredu-fault-") as folder:
        report = Path(folder) / "report.json"
        options = ["conformance", "--kind", str(fault.kind), "--tier", "quick", "--json", str(report)]
        ran = _run(fault, root, [*COMMAND, *options], timeout_s)
        if ran.returncode > CHECKS_FAILED:
            raise RuntimeError(f"the checks could not run for {fault.name}:\n{(ran.stdout + ran.stderr)[-4000:]}")
        results = read_json(report)["checks"]
    return [result["id"] for result in results if result["outcome"] not in {"passed", "skipped"}]


def run_command(
    fault: EngineFault, root: Path, arguments: Sequence[str], *, timeout_s: float = 1200
) -> subprocess.CompletedProcess[str]:
    """Run `eredu ARGUMENTS` with the fault, from the root of the checkout that is installed."""
    return _run(fault, root, [*COMMAND, *arguments], timeout_s)


def _run(fault: EngineFault, root: Path, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="eredu-seam-") as folder:
        seam, start = Path(folder, "seam.pickle"), Path(folder, "sitecustomize.py")
        seam.write_bytes(pickle.dumps(fault.seam))
        start.write_text(_START.format(file=str(seam)), encoding="utf-8")
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(  # noqa: S603 (the command is this module's own)
            [sys.executable, "-P", *command],
            cwd=root,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def plant_from(file: str) -> None:
    """Plant the seam of a file that this module wrote. A process in which that fails ends: it would test nothing."""
    try:
        seam: Seam = pickle.loads(Path(file).read_bytes())  # noqa: S301 (written by the process that started this one)
        plant(seam)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(NOT_PLANTED)
