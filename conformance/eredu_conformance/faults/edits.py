"""Faults planted in eredu itself: one small edit of one file, and the test of the suite that must notice it.

They stand beside the faults of the reference for what a reference without scheduler, device and checkpoints cannot
break honestly. An edit never touches the installed package: it is made in a copy that a test process imports instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eredu_conformance.checks.check import Kind

TESTS_FAILED = 1
"""What pytest exits with where a test failed; anything above means that it could not run."""
CHECKS_FAILED = 1
"""The same of `eredu conformance`."""
COMMAND = ("-c", "from eredu.commands.main import run; run()")
"""What Python runs for `eredu`, from whatever copy of it comes first."""


@dataclass(frozen=True, kw_only=True)
class EngineFault:
    """One wrong eredu.

    Attributes:
        name: What the engine does wrongly.
        rule: The rule of the spec that it breaks.
        story: How an engine comes to do this.
        file: The edited file, below the package.
        before: What stands there, once.
        after: What the fault makes of it.
        killer: The test that must fail, as pytest names it from the root of the repository.
        kind: The kind of check that sees it in the quick tier, if it is one of those that show what a kind can see.
    """

    name: str
    rule: str
    story: str
    file: str
    before: str
    after: str
    killer: str
    kind: Kind | None = None

    def edited(self, text: str) -> str:
        """The file's text with the fault. Raises `ValueError` if what it edits does not stand there exactly once."""
        count = text.count(self.before)
        if count != 1:
            raise ValueError(f"{self.name} edits {self.before!r}, which stands {count} times in eredu/{self.file}")
        return text.replace(self.before, self.after)


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
    """Run the fault's test on a copy of eredu that has the fault.

    Args:
        fault: The fault.
        root: A checkout of the repository.
        timeout_s: Seconds after which a test that hangs counts as failed.

    Raises:
        RuntimeError: pytest could not run the test, which says nothing about the fault.
    """
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "", fault.killer]
    with tempfile.TemporaryDirectory(prefix="eredu-fault-") as folder:
        try:
            ran = _run(fault, root, Path(folder), command, timeout_s)
        except subprocess.TimeoutExpired:
            return EngineKill(killed=True, output=f"no end within {timeout_s:g} s")
    said = (ran.stdout + ran.stderr)[-4000:]
    if ran.returncode > TESTS_FAILED:
        raise RuntimeError(f"pytest could not run {fault.killer} for {fault.name}:\n{said}")
    return EngineKill(killed=ran.returncode == TESTS_FAILED, output=said)


def seen_by_kind(fault: EngineFault, root: Path, *, timeout_s: float = 1200) -> list[str]:
    """Hold a copy of eredu that has the fault to the quick checks of its kind; return those that do not pass.

    Args:
        fault: A fault with a kind.
        root: A checkout of the repository.
        timeout_s: Seconds that the checks may take. Raises `subprocess.TimeoutExpired` beyond.

    Raises:
        RuntimeError: the command could not run, which says nothing about the fault.
    """
    with tempfile.TemporaryDirectory(prefix="eredu-fault-") as folder:
        report = Path(folder) / "report.json"
        options = ["conformance", "--kind", str(fault.kind), "--tier", "quick", "--json", str(report)]
        ran = _run(fault, root, Path(folder), [*COMMAND, *options], timeout_s)
        if ran.returncode > CHECKS_FAILED:
            raise RuntimeError(f"the checks could not run for {fault.name}:\n{(ran.stdout + ran.stderr)[-4000:]}")
        results = json.loads(report.read_text(encoding="utf-8"))["checks"]
    return [result["id"] for result in results if result["outcome"] not in {"passed", "skipped"}]


def run_command(
    fault: EngineFault, root: Path, arguments: Sequence[str], *, timeout_s: float = 1200
) -> subprocess.CompletedProcess[str]:
    """Run `eredu ARGUMENTS` with a copy of eredu that has the fault, from the root of a checkout."""
    with tempfile.TemporaryDirectory(prefix="eredu-fault-") as folder:
        return _run(fault, root, Path(folder), [*COMMAND, *arguments], timeout_s)


def _run(
    fault: EngineFault, root: Path, folder: Path, command: list[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    _copy_with_fault(fault, root, folder)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(  # noqa: S603 (the command is this module's own)
        [sys.executable, "-P", *command],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _copy_with_fault(fault: EngineFault, root: Path, folder: Path) -> None:
    copy = folder / "eredu"
    shutil.copytree(root / "eredu", copy, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    (copy / "assets").symlink_to(root / "eredu" / "assets")
    file = copy / fault.file
    file.write_text(fault.edited(file.read_text(encoding="utf-8")), encoding="utf-8")
