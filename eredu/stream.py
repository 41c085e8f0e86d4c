"""A stream: the events of one call as they are committed; closing it cancels the call."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from eredu.contract.errors import ThreadError
from eredu.contract.events import Event
from eredu.results import BatchResult, GenerationResult, SpeculationReport
from eredu.session import Session


class Stream(Iterator[Event]):
    """Iterator over the events of a call; `eredu.Model.stream` makes it.

    `TokensCommitted` tells of tokens and text that are final, `RequestFinished` is the last event of each prompt.
    Nothing is decoded before the next event is asked for. Whatever a request raises is raised here and closes the
    stream. `close`, leaving the with-block, or letting go of the stream cancels the call at once. It belongs to the
    thread that made it; another gets a `ThreadError`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __next__(self) -> Event:
        """The next event. Raises `StopIteration` after the last one, and when the stream is closed."""
        try:
            event = self._session.next_event()
        except ThreadError:
            raise
        except BaseException as error:
            self._session.__exit__(type(error), error, None)
            raise
        if event is None:
            self.close()
            raise StopIteration
        return event

    def result(self, prompt: int = 0) -> GenerationResult:
        """The output of a prompt by its number: finished, or cancelled by `close`.

        Raises `SessionError` while it lives, `OptionError` for an unknown number.
        """
        return self._session.result(prompt)

    def results(self) -> BatchResult:
        """The outputs of all prompts with the statistics of the schedule. Raises `SessionError` while one lives."""
        return self._session.results()

    @property
    def speculation(self) -> SpeculationReport:
        """Who proposes in this call, and why."""
        return self._session.speculation

    def close(self) -> None:
        """Cancel what still runs. Closing again does nothing."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, traceback)
