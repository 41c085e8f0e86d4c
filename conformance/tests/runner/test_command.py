"""The command line: exit statuses, files, the list, what a typo gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eredu.commands.main import main

FEW = ["--check", "path.budget/*/k2", "--jobs", "1"]


def test_a_right_subject_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        option: tmp_path / name for option, name in (("--junit", "a.xml"), ("--json", "a.json"), ("--html", "a.html"))
    }
    arguments = [part for option, path in files.items() for part in (option, str(path))]
    assert main(["conformance", "--subject", "reference", *FEW, *arguments]) == 0
    assert "conforms as far as this run looked" in capsys.readouterr().out
    assert json.loads(files["--json"].read_text())["seed"] == 0
    assert all(path.stat().st_size > 500 for path in files.values())


def test_a_wrong_engine_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--subject", "wrong_engine:WrongEngine", "--check", "path.greedy-is-argmax/ties/k3", "--seed", "9"]
    assert main(["conformance", *arguments]) == 1
    assert "--check path.greedy-is-argmax/ties/k3 --seed 9" in capsys.readouterr().out


def test_a_wrong_adapter_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--subject", "wrong_engine:WrongAdapter", *FEW]) == 2
    assert "your adapter is wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--subject", "nonesuch"], "no subject 'nonesuch'"),
        (["--tier", "slow"], "expected one of quick, standard, nightly"),
        (["--kind", "vibes"], "expected one of path, law"),
        (["--check", "path.nothing"], "no check is chosen"),
        (["--subject", "reference", *FEW, "--expected", "absent.toml"], "absent.toml"),
    ],
)
def test_typos_are_status_2(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_the_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--subject", "nonesuch", "--list", "--rule", "terminal.order"]) == 0
    listed = capsys.readouterr().out
    assert "path.order-of-endings/cycle/k2" in listed
    assert "path.budget" not in listed


def test_expected_failures_of_the_adopter(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('subject = "reference"\n[[expected]]\ncheck = "path.greedy-is-argmax/ties/k3"\nreason = "known"\n')
    arguments = ["--subject", "wrong_engine:WrongEngine", "--check", "path.greedy-is-argmax/ties/k3"]
    assert main(["conformance", *arguments, "--expected", str(file), "--jobs", "1"]) == 0
