"""What an oracle says of an engine: killed or not, and what it saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eredu_reference import Pieces, ReferenceFailure


@dataclass(frozen=True)
class Verdict:
    """The judgement over one engine.

    Attributes:
        killed: Whether the engine broke a rule that this oracle can see.
        evidence: What was seen, and with which case and seed; for an engine that was not killed, what was looked at.
    """

    killed: bool
    evidence: str


Judge = Callable[[Pieces, Sequence[int]], Verdict]
"""An oracle: judges an engine by its pieces on cases made from seeds. A correct engine is never killed, by any seed."""


class Broken(Exception):  # noqa: N818
    """Raised inside an oracle where the engine did something that the rules exclude."""


def expect(seen: object, expected: object, *, what: str) -> None:
    """Raise `Broken` unless both are equal."""
    if seen != expected:
        raise Broken(f"{what}: saw {seen!r}, the rules give {expected!r}")


def judge_cases(experiments: Sequence[tuple[str, Callable[[], None]]]) -> Verdict:
    """Run experiments in turn; the first that breaks, or fails where the rules do not fail, kills."""
    for name, experiment in experiments:
        try:
            experiment()
        except (Broken, ReferenceFailure, ArithmeticError, AssertionError, LookupError, ValueError) as problem:
            return Verdict(killed=True, evidence=f"{name}: {type(problem).__name__}: {problem}")
    return Verdict(killed=False, evidence=f"{len(experiments)} experiments, nothing broken")
