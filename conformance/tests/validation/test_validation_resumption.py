"""Parts that an interrupted validation had measured are kept, and only those that are missing are measured again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu_conformance.crafted import PairDirectories
from eredu_validation.measures import parts
from eredu_validation.measures.parts import PARTS_NAME

Command = Callable[..., Any]
Validate = Callable[..., Any]


@pytest.fixture
def validate(command: Command, pair: PairDirectories, tmp_path: Path) -> Validate:
    models = ("validate", str(pair.target), "--assistant", str(pair.draft))
    goal = ("--tokens", "20", "--max-tokens", "10", "--seed", "5", "--resume", str(tmp_path / "evidence"))
    return lambda *arguments: command(*models, *goal, *arguments)


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def forbid(*_: Any, **__: Any) -> Any:
    raise AssertionError("a part that was kept is measured again")


def test_ctrl_c_keeps_the_parts_measured_so_far(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(parts, "check_path", interrupt)
        ran = validate()
    assert ran.status == 130, ran
    assert "the parts measured so far are kept: --resume" in ran.stderr
    kept = json.loads((tmp_path / "evidence" / PARTS_NAME).read_text(encoding="utf-8"))["parts"]
    assert list(kept) == ["static", "numerics", "state"]
    for measure in ("inspect_subject", "audit_numerics", "check_state"):
        monkeypatch.setattr(parts, measure, forbid)
    ran = validate("--json", str(tmp_path / "result.json"))
    assert ran.status == 0, ran
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert list(result["parts"]) == ["static", "numerics", "state", "path", "benefit"]
    assert {name: result["parts"][name] for name in kept} == kept
    assert result["law"]["terms"]["tolerance"] == kept["numerics"]["tolerance"]


def test_parts_of_another_subject_are_refused(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(parts, "audit_numerics", interrupt)
        assert validate().status == 130
    monkeypatch.setattr(parts, "audit_numerics", forbid)
    ran = validate("--temperature", "0.9")
    assert ran.status == 2
    assert "is about another subject: settings.sampling was" in ran.stderr


def test_a_damaged_file_of_parts_is_told(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / PARTS_NAME).write_text('{"static": {}}', encoding="utf-8")
    ran = validate()
    assert ran.status == 2
    assert "is damaged" in ran.stderr


def test_parts_that_were_left_out_are_measured_when_they_are_wanted(validate: Validate, tmp_path: Path) -> None:
    skips = [word for part in ("numerics", "state", "benefit") for word in ("--skip", part)]
    assert validate(*skips, "--tolerance", "1e-4").status == 0
    ran = validate("--skip", "benefit", "--json", str(tmp_path / "result.json"))
    assert ran.status == 0, ran
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert list(result["parts"]) == ["static", "numerics", "state", "path"]
    assert result["law"]["terms"]["tolerance"] == 1e-4, "the ledger's tolerance stays"


def test_without_a_folder_each_subject_gets_one_of_its_own(
    command: Command, pair: PairDirectories, tmp_path: Path
) -> None:
    """The same seed with other settings is another subject, and no refusal; the same settings go on."""
    skips = [word for part in parts.OPTIONAL for word in ("--skip", part)]
    asked = ("validate", str(pair.target), "--assistant", str(pair.draft), *skips, "--workers", "1")
    goal = ("--tokens", "20", "--max-tokens", "10", "--seed", "5")
    for changes in ((), ("--temperature", "0.5"), ("--proposals", "3"), ()):
        ran = command(*asked, *goal, *changes)
        assert ran.status == 0, ran
    assert len(list((tmp_path / "cache" / "validations").iterdir())) == 3
