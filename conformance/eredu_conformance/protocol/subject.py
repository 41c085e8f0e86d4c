"""The subject: an engine under judgement, behind three calls; and the three ways in which a run can end."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Protocol

from eredu_conformance.protocol.capabilities import Capabilities
from eredu_conformance.protocol.errors import SkippedRunError, SubjectError
from eredu_conformance.protocol.run import Run, RunResult


class Subject(Protocol):
    """An engine. Adapters implement this in process, or speak the same over JSON lines (see `serve`)."""

    def start(self) -> Capabilities:
        """Get ready and declare what the engine can do. Called once before any run."""
        ...

    def run(self, run: Run) -> RunResult:
        """Do one run, from a fresh state: no run may see anything of an earlier one but loaded weights.

        Raises:
            SkippedRunError: the engine can't do this. Never ignore an option silently.
        """
        ...

    def stop(self) -> None:
        """Let go of everything."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ok:
    """The run ended with a result, right or wrong."""

    result: RunResult


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """The subject can't do the run and says so."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Errored:
    """The run ended without a result.

    Attributes:
        message: One line.
        detail: A traceback, or the end of the program's stderr; may be empty.
    """

    message: str
    detail: str = ""


Outcome = Ok | Skipped | Errored


def attempt(subject: Subject, capabilities: Capabilities, run: Run) -> Outcome:
    """Do one run and sort its end. Nothing that a subject raises gets out.

    A run that contradicts the declaration is skipped without asking the subject.
    """
    if (reason := capabilities.obstacle(run)) is not None:
        return Skipped(reason=reason)
    try:
        result = subject.run(run)
    except SkippedRunError as skip:
        return Skipped(reason=skip.reason)
    except SubjectError as error:
        return Errored(message=str(error), detail=error.detail)
    except Exception as error:  # An engine under judgement may raise anything.
        return Errored(message=f"{type(error).__name__}: {error}", detail=traceback.format_exc())
    if len(result.answers) != len(run.requests):
        return Errored(message=f"the run has {len(run.requests)} requests and got {len(result.answers)} answers")
    return Ok(result=result)
