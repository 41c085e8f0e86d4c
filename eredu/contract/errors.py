"""The one exception tree. Every message says what was given, what was expected and what to do."""

from __future__ import annotations

from eredu.contract.message import one_line


class EreduError(Exception):
    """Root of everything that eredu raises on purpose. Its message is one line of bounded length: see `one_line`.

    Attributes:
        exit_status: What a command that raises this ends with: it could not run.
    """

    exit_status = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class OptionError(EreduError, ValueError):
    """An option is out of range, or a combination of options is not supported."""


class CommandError(EreduError):
    """A command is registered, and the package that brings it cannot be imported."""


class OutputError(EreduError):
    """A result cannot be written: no room, no right to, or no such folder. What was there before is whole."""


class JsonError(EreduError, ValueError):
    """A text is no JSON, or past the bounds that any JSON of its kind keeps."""


class CheckpointError(EreduError):
    """A checkpoint is missing, truncated, malformed, or refuses the use that was asked of it."""


class TokenizerError(EreduError):
    """A tokenizer cannot be read, or two tokenizers that must be one differ."""


class CapabilityError(EreduError):
    """A loaded model lacks a capability (an exact rollback, a head, a drafter) that the request needs."""


class AcceptanceError(EreduError):
    """Numbers that no correct engine produces met the acceptance rule: NaN, q(x) <= 0, an empty residual."""


class ConstraintError(EreduError):
    """A grammar constraint left no token, or was advanced by a token it forbids."""


class PhaseError(EreduError):
    """A request was asked to take an edge that its life cycle does not have."""

    def __init__(self, request: int, source: str, target: str) -> None:
        super().__init__(
            f"request {request} may not go from phase '{source}' to phase '{target}': the life cycle has no such edge"
        )
        self.request = request
        self.source = source
        self.target = target


class SchedulerStalledError(EreduError):
    """Live requests remain, and none of them has an enabled action."""


class StatisticsError(EreduError):
    """The counters of a request contradict each other, so the statistics of the engine are wrong."""


class EngineError(EreduError):
    """Another engine that is being validated crashed, hung, refused, or answered what no engine can mean."""


class EvidenceError(EreduError, ValueError):
    """What was given as evidence is no evidence: rows that are no distributions, or ledgers of different subjects."""


class SessionError(EreduError):
    """A session or stream was used after it was closed, or asked for what is not there yet."""


class ThreadError(SessionError):
    """A session or stream was used from another thread than the one that made it."""
