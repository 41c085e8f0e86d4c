"""A scripted experiment: it gives an engine's parts what no run of a subject can bring about, and says what is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eredu_reference import Pieces, ReferenceFailure


class Broken(Exception):  # noqa: N818 - a finding about an engine, not an error of the suite
    """Raised by an experiment where the engine did something that the rules exclude."""


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes:
        id: `scripted.claim`.
        why: What has to be scripted, so that no check of the ordinary suite can ask it.
        run: Does it with an engine's parts; raises `Broken`.
    """

    id: str
    why: str
    run: Callable[[Pieces], None]


def expect(seen: object, expected: object, *, what: str) -> None:
    """Raise `Broken` unless both are equal."""
    if seen != expected:
        raise Broken(f"{what}: saw {seen!r}, the rules give {expected!r}")


def refuses(what: str, error: type[ReferenceFailure], attempt: Callable[[], object]) -> None:
    """Raise `Broken` unless the attempt raises an error."""
    try:
        seen = attempt()
    except error:
        return
    raise Broken(f"{what} must raise {error.__name__}, and gave {str(seen)[:60]}")


def complaint_of(experiment: Experiment, pieces: Pieces) -> str | None:
    """What an experiment says against an engine; failures that the rules do not give speak against it too."""
    try:
        experiment.run(pieces)
    except (Broken, ReferenceFailure, ArithmeticError, AssertionError, LookupError, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return None
