"""What a decoded request reports: plain, comparable, JSON-able."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from eredu_reference.decoding import Decoding, Event
from eredu_reference.statistics import RoundReport, Statistics
from eredu_reference.terminal import FinishReason


@dataclass(frozen=True)
class Report:
    """One decoded request.

    Attributes:
        prompt: Its prompt.
        tokens: The published output ids.
        finish: Why the output ended.
        text: The published text, all deltas joined.
        statistics: Counters over the committed rounds.
        rounds: One report for each of them.
        events: The log.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    finish: FinishReason
    text: str
    statistics: Statistics
    rounds: tuple[RoundReport, ...]
    events: tuple[Event, ...]

    def as_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings, ready for `json.dumps`."""
        return {
            "prompt": list(self.prompt),
            "tokens": list(self.tokens),
            "finish": self.finish.value,
            "text": self.text,
            "statistics": self.statistics.as_dict(),
            "rounds": [asdict(item) for item in self.rounds],
            "events": list(self.events),
        }


def report_of(state: Decoding, events: list[Event]) -> Report:
    """Report of a request that has ended."""
    assert state.finish is not None, "a request that has not ended has nothing to report"
    return Report(
        state.request.prompt, state.published, state.finish, state.text, state.statistics, state.reports, tuple(events)
    )
