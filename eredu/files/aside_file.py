"""A file that is written aside, and takes its name when it is whole. Every result that a command leaves is one.

A full disk, an interruption or a killed process leaves the older file as it was. What a killed process left aside is
removed by the next one that writes the same file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from eredu.contract.errors import OutputError

ENDING = ".partial"
STALE_S = 60.0
"""Age from which an aside file that nobody holds is one that a killed process left."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk, or of a user's share of it."""
_NO_RIGHT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class AsideFile:
    """One file being written; use it in a `with` statement. Whatever error leaves the statement discards it.

    A place that is no regular file (a pipe, a device) is written directly, for there is nothing to replace.

    Args:
        path: Where it is to be. A link keeps being one: the file that it leads to is replaced.
        keeps_part: What was written is kept although an error leaves the statement, except one of writing: for records
            that tell how it came to the error.

    Every method raises `OutputError`, which names `path`, where it cannot be written.
    """

    def __init__(self, path: Path, *, keeps_part: bool = False) -> None:
        self.path = path
        self._keeps_part = keeps_part
        self._failed = False
        self._written = False
        with self._told():
            # What a link to a pipe resolves to (that of a shell's >(...), for one) is no path.
            self._target = path if _is_special(path) else path.resolve()
            self._aside = None if _is_special(path) else self._target.with_name(_aside_name(self._target))
            self._file = self._open()

    def write(self, data: str | bytes) -> None:
        """Write text, as UTF-8, or bytes."""
        with self._told():
            self._file.write(data.encode("utf-8") if isinstance(data, str) else data)
        self._written = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not (self._keeps_part and self._written and not self._failed):
            self.discard()
            return
        try:
            with self._told():
                self._file.flush()
                if self._aside is not None:
                    os.fsync(self._file.fileno())
                    self._aside.replace(self._target)
                self._file.close()
        except OutputError:
            self.discard()
            raise

    def discard(self) -> None:
        """Leave everything as it was."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self._aside is not None:
            self._aside.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        if self._aside is None:
            return self._target.open("wb")
        _remove_stale(self._target)
        descriptor = os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # held as long as it is written: see `_remove_stale`
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(descriptor, stat.S_IMODE(self._target.stat().st_mode))
        return os.fdopen(descriptor, "wb")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._failed = True
            raise output_error(self.path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write a whole file. Raises `OutputError` where it cannot be written."""
    with AsideFile(path) as file:
        file.write(text)


def write_json(path: Path, value: Any, *, indent: int = 2) -> None:
    """Write one JSON object as a whole file. Raises `OutputError` where it cannot be written."""
    write_text(path, json.dumps(value, indent=indent) + "\n")


def require_writable(path: Path) -> None:
    """Raise `OutputError` where a file cannot be written: before the work whose result it is to hold."""
    if path.is_dir() or not path.exists() or path.is_file():
        AsideFile(path).discard()
    elif not os.access(path, os.W_OK):  # and not by opening it, which whoever reads a pipe would notice
        raise output_error(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there. Raises `OutputError` where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(path, error) from error


def output_error(path: Path, error: OSError) -> OutputError:
    """The error of a file that cannot be written, as one that says what to do."""
    reason = error.strerror or str(error)
    if error.errno in NO_ROOM:
        advice = "free some room there, or name another place"
    elif error.errno in _NO_RIGHT:
        advice = "name a file in a folder of yours"
    elif error.errno in {errno.ENOENT, errno.ENOTDIR}:
        advice = "make its folder first, or name another place"
    else:
        advice = "name another place"
    return OutputError(f"{path} cannot be written: {reason}; {advice}")


def _is_special(path: Path) -> bool:
    """Whether there is a pipe or a device, which nothing can replace. Raises `OSError` for a folder."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path.exists() and not path.is_file()


def _aside_name(target: Path) -> str:
    return f"{_stem(target)}{secrets.token_hex(6)}{ENDING}"


def _stem(target: Path) -> str:
    return f".{target.name[:100]}."


def _remove_stale(target: Path) -> None:
    """Remove what killed processes left of the same file: old enough, and locked by nobody."""
    stem = _stem(target)
    with contextlib.suppress(OSError):
        left = [p for p in target.parent.iterdir() if p.name.startswith(stem) and p.name.endswith(ENDING)]
        for path in left:
            if time.time() - path.stat().st_mtime > STALE_S and is_unheld(path):
                path.unlink(missing_ok=True)


def is_unheld(path: Path) -> bool:
    """Whether no process holds the lock of a file; a process that ends, however it ends, lets go of its locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
