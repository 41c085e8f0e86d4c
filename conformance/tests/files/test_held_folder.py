"""Folders of work in progress end with it, or at the next run; children end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eredu.files import ending_with_parent, held_folder
from eredu.files.held_folder import held_folder as held


def test_a_folder_ends_with_its_work(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> None:
        assert folder.is_dir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), held(tmp_path / "cache", "work-") as folder:
        interrupted(folder)
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "work-left"
    left.mkdir()
    (left / "half.whl").write_bytes(b"x")
    other = tmp_path / "other-left"
    other.mkdir()
    with held(tmp_path, "work-") as first:
        assert left.exists(), "it is new, and may have no lock yet"
        monkeypatch.setattr(held_folder, "STALE_S", -1.0)
        with held(tmp_path, "work-") as second:
            assert sorted(tmp_path.iterdir()) == sorted([first, second, other])


CHILD = """
import os, sys, time
print(os.getpid(), flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-P", {ending_with_parent.__file__!r}, "child"], stdin=subprocess.PIPE)
time.sleep(60)
"""


def test_a_child_ends_with_its_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        assert parent.stdout.read() == "", "its output ends when the last of both has ended"
        parent.wait()
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)  # whoever adopted it has not waited for it yet
    status = Path(f"/proc/{child}/stat")
    assert status.read_text().rpartition(")")[2].split()[0] == "Z"
