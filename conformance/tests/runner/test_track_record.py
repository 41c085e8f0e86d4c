"""The track record of the README: what it says of the released mlx-lm is what a run says, suite or no suite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from eredu_conformance.checks.check import Tier
from eredu_conformance.checks.registry import check_named
from eredu_conformance.protocol import SubjectSource, read_expected_failures
from eredu_conformance.runner import Plan, Status, conduct
from eredu_spec.rules import rules

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPECTED = ROOT / "eredu_conformance" / "subjects" / "mlx_lm_expected.toml"


@pytest.mark.nightly
def test_expected_failures_are_what_fails() -> None:
    report = conduct(
        SubjectSource(name="mlx-lm"),
        Plan(tier=Tier.QUICK),
        jobs=2,
        expected=lambda capabilities: read_expected_failures(EXPECTED, subject=capabilities.name),
    )
    assert not report.failures
    assert not report.surprises
    assert not report.stale
    assert report.status is Status.CONFORMING


@pytest.mark.parametrize("name", re.findall(r"--check ([\w./-]+) --seed", README))
def test_replays_of_the_table_exist(name: str) -> None:
    assert check_named(name).id == name


def test_rules_of_the_table_exist() -> None:
    table = README[README.index("## Track record") : README.index("**The same without")]
    named = set(re.findall(r"`([a-z]+\.[a-z-]+)`", table))
    assert len(named) >= 9
    assert named <= rules().keys()


def _block(language: str) -> str:
    section = README[README.index("**The same without") :]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_strangers_see_the_same(tmp_path: Path) -> None:
    (tmp_path / "replay.py").write_text(_block("python"), encoding="utf-8")
    shown = _block("console")
    commands = re.findall(r"^\$ python (.*)$", shown, re.MULTILINE)
    assert len(commands) == 4
    printed = ""
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        )
        printed += "" if command.startswith("-m") else done.stdout
    assert printed.split() == re.sub(r"^\$.*\n", "", shown, flags=re.MULTILINE).split()
