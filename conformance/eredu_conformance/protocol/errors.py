"""What can go wrong between the suite and a subject, as opposed to what a subject gets wrong."""

from __future__ import annotations


class ConformanceError(Exception):
    """Root of everything that the suite raises on purpose.

    Attributes:
        exit_status: What a command that raises this ends with: it could not run.
    """

    exit_status = 2


class MessageError(ConformanceError, ValueError):
    """A message or a file does not have the shape that the protocol states; the text names the place."""


class SubjectError(ConformanceError):
    """A subject could not run at all: it raised, crashed, hung or spoke nonsense.

    Attributes:
        detail: Diagnostic text of the subject, such as a traceback or the end of its stderr; may be empty.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class ProgramExitedError(SubjectError):
    """The program ended before it answered."""


class ProgramTimedOutError(SubjectError):
    """The program did not answer in time; it was killed."""


class ProgramGarbageError(SubjectError):
    """The program's standard output held a line that is no answer; it was killed."""


class SkippedRunError(ConformanceError):
    """Raised by a subject that can't do what a run asks. This is an honest answer, not a failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
