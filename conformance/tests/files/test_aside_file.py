"""Results are written aside and take their names when they are whole: an older one is never cut."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eredu.contract.errors import OutputError
from eredu.files import aside_file
from eredu.files.aside_file import AsideFile, make_folder, require_writable, write_json, write_text


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow beyond 8 kB, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_result_replaces_an_older_one_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    path.chmod(0o600)
    write_json(path, {"a": "é"})
    assert path.read_text(encoding="utf-8") == '{\n  "a": "\\u00e9"\n}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_text(tmp_path / "new", "x")
    before = os.umask(0)
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~before
    assert names(tmp_path) == ["new", "result.json"]


def test_until_it_is_whole_the_older_one_stands(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    with AsideFile(path) as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("keeps_part", [False, True])
def test_a_full_disk_leaves_the_older_one(tmp_path: Path, keeps_part: bool) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    said = rf"^{path} cannot be written: File too large; free some room"
    with pytest.raises(OutputError, match=said), AsideFile(path, keeps_part=keeps_part) as file:
        file.write("x" * 100_000)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["result"]


def test_an_error_of_the_writer_leaves_the_older_one_unless_the_part_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "result"
    for keeps_part, written, stands in ((False, "part", "old"), (True, "part", "part"), (True, "", "part")):
        path.write_text("old" if written else "part")
        with pytest.raises(KeyboardInterrupt), AsideFile(path, keeps_part=keeps_part) as file:
            interrupt_after(file, written)
        assert path.read_text() == stands
    assert names(tmp_path) == ["result"]


def interrupt_after(file: AsideFile, text: str) -> None:
    if text:
        file.write(text)
    raise KeyboardInterrupt


def test_a_device_and_a_pipe_are_written_directly(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="/dev/full cannot be written: No space left on device; free some room"):
        write_text(Path("/dev/full"), "x")
    require_writable(Path("/dev/full"))
    reading, writing = os.pipe()
    write_text(Path(f"/dev/fd/{writing}"), "through")
    os.close(writing)
    assert os.read(reading, 100) == b"through"
    os.close(reading)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    write_text(tmp_path / "link", "one")
    write_text(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file").read_text() == "two"


@pytest.mark.parametrize("write", [lambda path: write_text(path, "x"), require_writable])
@pytest.mark.parametrize(
    ("name", "said"), [("none/at/all", "make its folder first"), ("folder", "Is a directory"), ("file/x", "folder")]
)
def test_places_that_are_none_are_named(tmp_path: Path, write: Callable[[Path], None], name: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=said) as raised:
        write(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)
    assert names(tmp_path) == ["file", "folder"]


def test_asking_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    require_writable(tmp_path / "old")
    require_writable(tmp_path / "new")
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "old"
    with pytest.raises(OutputError, match=r"cannot be written: (File exists|Not a directory)"):
        make_folder(tmp_path / "old")


def test_what_a_killed_process_left_goes_at_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are left: one that is held, one that is new, and one of a killed process."""
    for name in ("held", "new", "stale"):
        path = tmp_path / f".result.{name}.partial"
        path.write_text("x")
        if name != "new":
            os.utime(path, (0, 0))
    with (tmp_path / ".result.held.partial").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_text(tmp_path / "result", "whole")
        assert names(tmp_path) == [".result.held.partial", ".result.new.partial", "result"]
    monkeypatch.setattr(aside_file, "STALE_S", -1.0)
    write_text(tmp_path / "result", "whole")
    assert names(tmp_path) == ["result"]


def test_an_error_without_a_known_number_says_what_the_system_said(tmp_path: Path) -> None:
    said = str(aside_file.output_error(tmp_path, OSError(errno.EIO, "Input/output error")))
    assert said == f"{tmp_path} cannot be written: Input/output error; name another place"
