"""A session: requests that come and go on one executor, and their events."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from eredu.contract.backend import GenerationBackend
from eredu.contract.errors import OptionError, SessionError, ThreadError
from eredu.contract.events import Event
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.prepared import PreparedRequest
from eredu.request_options import RequestOptions, generation_options
from eredu.results import BatchResult, GenerationResult, Outputs, SpeculationReport
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu.scheduling.trace import TraceSink
from eredu.speculation import Plan

if TYPE_CHECKING:
    from eredu.prompts import Prompt

T = TypeVar("T")


class Session:
    """Requests on one executor, which share its turns fairly; `eredu.Model.session` makes it.

    It works only while its events are taken, and it belongs to the thread that made it: every call from another
    raises `ThreadError`. Several sessions of one model may be open at once, in one thread or in several; their turns
    exclude each other. A failing request raises out of `events`, and leaves the session and its other requests
    intact. Leave the with-block, or call `close`, to cancel what still runs.

    >>> import eredu
    >>> model = eredu.load("tiny-qwen3.5")
    >>> with model.session(seed=7) as session:
    ...     first = session.add("Write a story about a lighthouse.", max_tokens=4)
    ...     other = session.add("Write a story about a fox.", max_tokens=200)
    ...     for event in session:
    ...         if event.request == first:
    ...             session.cancel(other)
    >>> session.finish(first).value, session.finish(other).value
    ('length', 'cancelled')
    >>> len(session.tokens(first)), session.request_statistics(first).emitted
    (4, 4)
    """

    def __init__(
        self,
        backend: GenerationBackend,
        lent: AbstractContextManager[SpeculativeExecutor[Any, Any, Any]],
        *,
        encode: Callable[[Prompt, bool], tuple[int, ...]],
        plan: Plan,
        seed: int,
        trace: TraceSink | None,
        turns: AbstractContextManager[object],
    ) -> None:
        self._closed = True
        self._thread = threading.current_thread()
        self._backend, self._lent, self._encode = backend, lent, encode
        self._plan, self._seed, self._turns = plan, seed, turns
        self._count = 0
        self._told: deque[Event] = deque()
        self._outputs = Outputs(self._told.append)
        with turns:
            self._scheduler = SpeculativeScheduler[Any, Any, Any](
                lent.__enter__(), options=plan.settings.schedule, sink=self._outputs, trace=trace
            )
        self._closed = False

    # ---- requests ------------------------------------------------------------------------------------------------

    def add(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> int:
        """Take in a request, at any time; return its number, which its events carry.

        Args:
            prompt: A text, a chat, or token ids.
            options: See `eredu.RequestOptions`. Without a `seed` it draws from the session's seed and its own number.

        Raises `OptionError` for a prompt or an option that cannot be, `SessionError` after `close`.
        """
        self._require_open()
        settings = generation_options(options, self._plan.settings.request)
        prepared = PreparedRequest(
            prompt=self._encode(prompt, options.get("raw", False)),
            options=settings,
            constraint=options.get("constraint"),
        )
        return self.add_prepared(prepared)

    def add_prepared(self, request: PreparedRequest) -> int:
        """Take in a request that is tokenized and checked, with proposals of its own where somebody proposes."""
        self._require_open()
        if not self._plan.speculates:
            request = replace(request, options=replace(request.options, max_proposals=0, lookahead_depth=None))
        with self._turns:
            self._scheduler.add(request.resolve(self._backend, index=self._count, seed=self._seed))
        self._count += 1
        return self._count - 1

    def cancel(self, request: int) -> None:
        """Cancel a request at once; one that has ended stays as it is.

        Its last event, of reason `cancelled`, is still to come. Raises `OptionError` for an unknown number.
        """
        self._require_open()
        self._require_known(request)
        with self._turns:
            self._scheduler.cancel(request)

    # ---- events --------------------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Take turns, and give every event in order, until all requests have ended.

        Requests may be added and cancelled between two events; after the last one, add more and call it again.
        Raises what the failing of a request raised; calling it again goes on with the others.
        """
        self._require_open()
        return iter(self.next_event, None)

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def next_event(self) -> Event | None:
        """Take turns until there is an event; None when all requests have ended, and after `close`."""
        self._require_thread()
        while not (self._told or self._closed or self._scheduler.is_done):
            with self._turns:
                self._scheduler.turn()
        return self._told.popleft() if self._told and not self._closed else None

    # ---- what came out -------------------------------------------------------------------------------------------

    def tokens(self, request: int) -> tuple[int, ...]:
        """Output ids of a request so far."""
        return self._outputs.tokens(self._require_known(request))

    def text(self, request: int) -> str:
        """Visible text of a request so far."""
        return self._outputs.text(self._require_known(request))

    def finish(self, request: int) -> FinishReason | None:
        """Why a request ended; None while it lives."""
        return self._scheduler.finish(self._require_known(request))

    def result(self, request: int) -> GenerationResult:
        """The finished output of a request. Raises `SessionError` while it lives."""
        return self._outputs.result(self._require_known(request), self._plan.report)

    def results(self) -> BatchResult:
        """The finished outputs of all requests, in the order of their numbers. Raises `SessionError` if one lives."""
        return BatchResult(tuple(map(self.result, range(self._count))), self.statistics())

    def request_statistics(self, request: int) -> RequestStatistics:
        """Counters of a request, as of its last commit."""
        return self._scheduler.request_statistics(self._require_known(request))

    def statistics(self) -> ScheduleStatistics:
        """Counters of the schedule so far, and the sum over its requests."""
        self._require_thread()
        return self._scheduler.statistics()

    @property
    def speculation(self) -> SpeculationReport:
        """Who proposes in this session, and why."""
        return self._plan.report

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel what still runs and give the executor back; outputs and statistics stay. Closing again does nothing.

        Raises `ThreadError` from another thread, and what ending a request raises.
        """
        self._require_thread()
        if self._closed:
            return
        self._closed = True
        try:
            with self._turns:
                self._scheduler.close()
        finally:
            self._lent.__exit__(None, None, None)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as closing:
            if error is None:
                raise
            error.add_note(f"cancelling what still ran raised as well: {closing!r}")

    def __del__(self) -> None:
        if not self._closed and self._thread is threading.current_thread():
            with suppress(Exception):  # nobody is left to tell
                self.close()

    # ---- checks --------------------------------------------------------------------------------------------------

    def _require_thread(self) -> None:
        here = threading.current_thread()
        if here is not self._thread:
            raise ThreadError(
                f"this session belongs to thread '{self._thread.name}' and was used from '{here.name}'; use it there, "
                "or make one here: a model may be shared, a session may not"
            )

    def _require_open(self) -> None:
        self._require_thread()
        if self._closed:
            raise SessionError("this session is closed; make another with model.session()")

    def _require_known(self, request: int) -> int:
        self._require_thread()
        if request not in range(self._count):
            known = f"has requests 0 to {self._count - 1}" if self._count else "has no requests yet"
            raise OptionError(f"there is no request {request!r}; this session {known}")
        return request
