"""What a call gives back: each finished output, and what came of speculation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eredu.contract.capability import MtpCheckpointKind
from eredu.contract.errors import SessionError
from eredu.contract.events import Event, EventSink, RequestFinished, TokensCommitted
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason


@dataclass(frozen=True, slots=True)
class SpeculationReport:
    """Who proposed, and why.

    Attributes:
        drafter: `embedded` for heads in the target's checkpoint, `separate` for an assistant, None for plain decoding.
        reason: Why, in one sentence.
    """

    drafter: MtpCheckpointKind | None
    reason: str


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """One finished output.

    Attributes:
        tokens: Output ids, a terminal one included.
        text: Visible text; empty where the backend has no tokenizer.
        finish: Why it ended.
        statistics: Counters of its rounds and proposals.
        speculation: Who proposed, and why.
    """

    tokens: tuple[int, ...]
    text: str
    finish: FinishReason
    statistics: RequestStatistics
    speculation: SpeculationReport


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outputs of one call, in the order of its prompts, and the statistics of their schedule.

    It has a length, can be indexed by the number of a prompt, and iterates over the outputs.
    """

    results: tuple[GenerationResult, ...]
    schedule: ScheduleStatistics

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> GenerationResult:
        return self.results[index]

    def __iter__(self) -> Iterator[GenerationResult]:
        return iter(self.results)


class Outputs:
    """Gathers events into outputs, and passes them on. An `EventSink`."""

    def __init__(self, sink: EventSink | None = None) -> None:
        self._sink = sink
        self._tokens: dict[int, list[int]] = {}
        self._texts: dict[int, list[str]] = {}
        self._finished: dict[int, RequestFinished] = {}

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case TokensCommitted():
                self._tokens.setdefault(event.request, []).extend(event.tokens)
                self._texts.setdefault(event.request, []).append(event.text)
            case RequestFinished():
                self._finished[event.request] = event
        if self._sink is not None:
            self._sink(event)

    def tokens(self, request: int) -> tuple[int, ...]:
        """Output ids published so far."""
        return tuple(self._tokens.get(request, ()))

    def text(self, request: int) -> str:
        """Visible text published so far."""
        return "".join(self._texts.get(request, ()))

    def result(self, request: int, speculation: SpeculationReport) -> GenerationResult:
        """The finished output of a request. Raises `SessionError` while it lives."""
        finished = self._finished.get(request)
        if finished is None:
            raise SessionError(f"request {request} has not ended yet; take its events to the end, or cancel it, first")
        return GenerationResult(
            self.tokens(request), self.text(request), finished.reason, finished.statistics, speculation
        )
