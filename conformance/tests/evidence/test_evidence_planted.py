"""`eredu validate` on the small checkpoint rejects and names faults planted in the sampling path of the device."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eredu_conformance.faults.engine.killing import run_command
from eredu_conformance.validator_power.planted import PLANTED, Planted

ROOT = Path(__file__).parents[3]
ARGUMENTS = ("validate", "tiny-qwen3.5", "--proposals", "3", "--seed", "5", "--tolerance", "0.002", "--tokens", "4000")
"""The law alone, at 1e-6 and with the tolerance of bfloat16."""
SKIPPED = tuple(word for part in ("numerics", "state", "path", "benefit") for word in ("--skip", part))


def validated(planted: Planted, folder: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    report = folder / "report.json"
    places = ("--resume", str(folder / "evidence"), "--json", str(report))
    ran = run_command(planted.fault, ROOT, [*ARGUMENTS, *SKIPPED, *places, *planted.arguments])
    return ran, json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.fault.name)
def test_every_fault_finds_its_seam(planted: Planted) -> None:
    assert planted.fault.seam.wrong_version() is not planted.fault.seam.at


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.fault.name)
def test_validate_rejects_a_fault_in_the_sampling_path(planted: Planted, tmp_path: Path) -> None:
    ran, result = validated(planted, tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    verdict = result["law"]["verdict"]
    best = verdict["best_bets"][0]["name"]
    assert best.startswith(planted.looks_like), verdict["text"]
    assert best in " ".join((ran.stdout + ran.stderr).split())
