"""What a check found: an observation that speaks for the subject, or a counterexample that speaks against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What a check saw that speaks for the subject. It never says more than it saw.

    Attributes:
        text: One line.
        figures: Numbers by name, such as sample sizes, error rates and the effect that would have been seen.
    """

    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """What a check saw that speaks against the subject.

    Attributes:
        message: What was seen and what was due.
        history: Prompt and output up to where they part, of the smallest case found; empty where there is none.
        case: The smallest case found, as JSON-able values.
        figures: Numbers by name.
    """

    message: str
    history: tuple[int, ...] = ()
    case: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


class CheckFailure(Exception):  # noqa: N818 - a finding about the subject, not an error of the suite
    """Raised by a check that found a counterexample, with the attributes of `Counterexample`."""

    def __init__(
        self,
        message: str,
        *,
        history: tuple[int, ...] = (),
        case: Mapping[str, Any] | None = None,
        figures: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.counterexample = Counterexample(message=message, history=history, case=case or {}, figures=figures or {})
