"""A child process that is spoken to in lines, with limits on time and length, and with errors that quote the line."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from eredu_conformance.protocol.errors import (
    ProgramExitedError,
    ProgramGarbageError,
    ProgramTimedOutError,
    SubjectError,
)

LINE_BYTES_MAX = 64 * 2**20
"""A longer line is garbage."""

_STDERR_TAIL_BYTES = 4000
_EXIT_GRACE_S = 5.0


class LinePipe:
    """One started process: `send` a line, `receive` a line.

    Its stderr goes to a file, so a program that prints much never blocks; the end of it is quoted in errors.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        self.lines_received = 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command is the adopter's own
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=None if environment is None else dict(environment),
            )
        except OSError as error:
            self._stderr.close()
            raise SubjectError(f"{self._named} could not be started: {error}") from error
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @property
    def _named(self) -> str:
        return f"the program `{' '.join(self.command)}`"

    def _read(self, stdout: IO[bytes]) -> None:
        while line := stdout.readline(LINE_BYTES_MAX + 1):
            self._lines.put(line)
        self._lines.put(None)

    def send(self, line: str) -> None:
        """Write one line. A program that is gone shows at the next `receive`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            return

    def receive(self, *, timeout_s: float, to: str) -> str:
        """Read one line, the answer to the message named `to`.

        Raises:
            ProgramTimedOutError: nothing came in time.
            ProgramExitedError: the program ended.
            ProgramGarbageError: the line is too long, unfinished, or not UTF-8.
        """
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise ProgramTimedOutError(
                f"{self._named} did not answer {to} within {timeout_s:g} s", detail=self.stderr_tail()
            ) from None
        if line is None:
            status = self._wait()
            raise ProgramExitedError(
                f"{self._named} ended with status {status} before it answered {to}", detail=self.stderr_tail()
            )
        self.lines_received += 1
        if not line.endswith(b"\n"):
            raise self.garbage("is cut off or too long", line.decode(errors="replace"))
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise self.garbage("is not UTF-8", line.decode(errors="replace")) from None

    def garbage(self, why: str, line: str) -> ProgramGarbageError:
        """The error for the line received last."""
        shown = line.rstrip("\n")
        shown = shown if len(shown) <= 200 else shown[:197] + "..."
        return ProgramGarbageError(
            f"line {self.lines_received} of the standard output of {self._named} {why}: {shown!r}. "
            "Standard output is for answers only, one JSON object a line; write diagnostics to standard error.",
            detail=self.stderr_tail(),
        )

    def stderr_tail(self) -> str:
        """The end of what the program wrote to stderr."""
        size = self._stderr.seek(0, 2)
        self._stderr.seek(max(0, size - _STDERR_TAIL_BYTES))
        return self._stderr.read().decode(errors="replace")

    def finish(self) -> int:
        """Close the program's input, wait for its end and return its status; kill it if it doesn't end in time."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        status = self._wait()
        self._release()
        return status

    def kill(self) -> None:
        """End the program at once."""
        self._process.kill()
        self.finish()

    def _wait(self) -> int:
        try:
            return self._process.wait(timeout=_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _release(self) -> None:
        assert self._process.stdout is not None
        self._reader.join(timeout=_EXIT_GRACE_S)
        # A child of the program may still hold the pipe open; then the reader ends with it, and closes nothing.
        if not self._reader.is_alive():
            self._process.stdout.close()
        self._stderr.close()
