"""A folder takes its name when it is whole; somebody's folder is never replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from eredu.contract.errors import OutputError
from eredu.files import held_folder
from eredu.files.aside_folder import aside_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_takes_its_name_when_it_is_whole(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "made"
    if there:
        path.mkdir()
    with aside_folder(path) as made:
        (made / "file").write_text("x")
        assert not (path / "file").exists()
    assert (path / "file").read_text() == "x"
    assert names(tmp_path) == ["made"]


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no")])
def test_an_error_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), aside_folder(tmp_path / "made"):
        fail(error)
    assert names(tmp_path) == []


def test_a_full_disk_is_one_typed_line(tmp_path: Path) -> None:
    said = f"{tmp_path / 'made'} cannot be written: No space left on device; free some room"
    with pytest.raises(OutputError, match=said), aside_folder(tmp_path / "made"):
        fail(OSError(28, "No space left on device"))
    assert names(tmp_path) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("full", "file"):
        with pytest.raises(OutputError, match="is there already"), aside_folder(tmp_path / name):
            pass
    assert names(tmp_path / "full") == ["theirs"]


def test_what_a_killed_process_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".made.partial-x"
    left.mkdir()
    monkeypatch.setattr(held_folder, "STALE_S", -1.0)
    with aside_folder(tmp_path / "made"):
        pass
    assert names(tmp_path) == ["made"]
