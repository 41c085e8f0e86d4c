"""A folder for work in progress: gone with the work, and, where its process was killed, at the next run."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from eredu.files.aside_file import STALE_S, is_unheld

_LOCK = ".held"


@contextlib.contextmanager
def held_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `parent`, removed behind the `with` statement. Others of the prefix that nobody holds go first.

    A living process holds its folder by a lock on a file in it, which the system releases however the process ends.
    Raises `OSError` where the folder cannot be made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{prefix}*"):
        if _is_stale(left):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name:
        folder = Path(name)
        with (folder / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder


def _is_stale(folder: Path) -> bool:
    """Old enough, and held by nobody; one that is being made has no lock yet."""
    lock = folder / _LOCK
    try:
        age = time.time() - folder.stat().st_mtime
    except OSError:  # its process removed it just now
        return False
    return age > STALE_S and (is_unheld(lock) or not lock.exists())
