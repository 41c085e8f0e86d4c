"""The queue of events that are already true and not yet told."""

from __future__ import annotations

from collections import deque

from eredu.contract.events import Event, EventSink


class EventQueue:
    """Tells events in order, one after another, never one inside another.

    An event counts as told once the sink was called with it, even if the sink raised: it is not told twice, and the
    events behind it wait for the next `publish`.
    """

    def __init__(self, sink: EventSink | None) -> None:
        self._sink = sink
        self._events: deque[Event] = deque()
        self.is_publishing = False
        """Whether the sink is being called right now."""

    @property
    def is_empty(self) -> bool:
        """Whether every event is told."""
        return not self._events

    def put(self, event: Event) -> None:
        """Queue an event."""
        self._events.append(event)

    # rule: events.append-only, events.one-publication-a-commit
    def publish(self) -> None:
        """Tell what is queued; inside a callback, leave that to the call that is telling already."""
        if self.is_publishing:
            return
        self.is_publishing = True
        try:
            while self._events:
                event = self._events.popleft()
                if self._sink is not None:
                    self._sink(event)
        finally:
            self.is_publishing = False
