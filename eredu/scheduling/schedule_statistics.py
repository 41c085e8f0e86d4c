"""What a schedule counts about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.scheduling.action import Action, Turn
from eredu.scheduling.phase import SUBMITTED
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.ring import Ring


@dataclass(slots=True)
class ScheduleCounter:
    """Counts turns, overlaps and peaks. Times come from `clock` and are diagnostic only.

    Attributes:
        turns: Turns counted so far.
    """

    _clock: Callable[[], float]
    _started_s: float | None = None
    _elapsed_s: float = 0.0
    _actions: Counter[Action] = field(default_factory=Counter)
    turns: int = 0
    _cross_request_drafts: int = 0
    _peak_live: int = 0
    _peak_in_flight: int = 0
    _peak_branches: int = 0
    _peak_group: int = 0
    _cancelled: int = 0

    def count(self, turn: Turn[Any, Any, Any], ring: Ring[Any, Any, Any]) -> None:
        """Count a turn, before it is taken."""
        if self._started_s is None:
            self._started_s = self._clock()
        self.turns += 1
        self._actions[turn.action] += 1
        if turn.action is Action.SUBMIT:
            self._peak_group = max(self._peak_group, len(turn.members))
        others = any(other not in turn.members and other.phase in SUBMITTED for other in ring)
        self._cross_request_drafts += others and any(_drafts(turn.action, member) for member in turn.members)

    def observe(self, ring: Ring[Any, Any, Any]) -> None:
        """Look at the ring behind a turn."""
        self._peak_live = max(self._peak_live, len(ring))
        self._peak_in_flight = max(self._peak_in_flight, ring.in_flight)
        self._peak_branches = max(self._peak_branches, ring.branches)
        if self._started_s is not None:
            self._elapsed_s = self._clock() - self._started_s

    def end(self, reason: FinishReason) -> None:
        """Count the end of a request."""
        self._cancelled += reason is FinishReason.CANCELLED

    def statistics(self, requests: Iterable[RequestStatistics]) -> ScheduleStatistics:
        """The counters so far."""
        return ScheduleStatistics(
            turns=self.turns,
            actions=tuple(sorted((action.value, count) for action, count in self._actions.items())),
            cross_request_drafts=self._cross_request_drafts,
            peak_live=self._peak_live,
            peak_in_flight=self._peak_in_flight,
            peak_branches=self._peak_branches,
            submissions=self._actions[Action.SUBMIT],
            peak_group=self._peak_group,
            cancelled=self._cancelled,
            elapsed_s=self._elapsed_s,
            requests=RequestStatistics.total(requests),
        )


def _drafts(action: Action, state: RequestState[Any, Any, Any]) -> bool:
    """Whether the action drafts anything: the empty block of plain decoding is no draft."""
    return action is Action.BRANCH or (action is Action.DRAFT and state.current.depth.count > 0)
