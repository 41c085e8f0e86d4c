"""What a schedule counts about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu.scheduling.request_state import RequestRecord

Ring = Collection[RequestRecord[Any, Any, Any]]

_BRANCHING = frozenset({Phase.LOOKAHEAD_DRAFTING, Phase.LOOKAHEAD_READY})


def in_flight(ring: Ring) -> int:
    """Verifications submitted and not yet resolved."""
    return sum(record.phase in SUBMITTED for record in ring)


def branches(ring: Ring) -> int:
    """Lookahead branches begun and not yet resolved."""
    return sum(record.phase in _BRANCHING for record in ring)


class ScheduleLedger:
    """Counts turns, overlaps and peaks. Times come from `clock` and are diagnostic only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started_s: float | None = None
        self._elapsed_s = 0.0
        self._actions: Counter[str] = Counter()
        self._turns = 0
        self._cross_request_drafts = 0
        self._peaks = (0, 0, 0)
        self._cancelled = 0

    @property
    def turns(self) -> int:
        """Actions counted so far."""
        return self._turns

    def count(self, action: str, record: RequestRecord[Any, Any, Any], ring: Ring) -> None:
        """Count one action, before it is taken."""
        if self._started_s is None:
            self._started_s = self._clock()
        self._turns += 1
        self._actions[action] += 1
        others = any(other is not record and other.phase in SUBMITTED for other in ring)
        self._cross_request_drafts += others and _drafts(action, record)

    def observe(self, ring: Ring) -> None:
        """Look at the ring after an action."""
        now = (len(ring), in_flight(ring), branches(ring))
        self._peaks = (max(now[0], self._peaks[0]), max(now[1], self._peaks[1]), max(now[2], self._peaks[2]))
        if self._started_s is not None:
            self._elapsed_s = self._clock() - self._started_s

    def end(self, reason: FinishReason) -> None:
        """Count the end of a request."""
        self._cancelled += reason is FinishReason.CANCELLED

    def statistics(self, requests: Iterable[RequestStatistics]) -> ScheduleStatistics:
        """The books so far."""
        live, flying, branching = self._peaks
        return ScheduleStatistics(
            turns=self.turns,
            actions=tuple(sorted(self._actions.items())),
            cross_request_drafts=self._cross_request_drafts,
            peak_live=live,
            peak_in_flight=flying,
            peak_branches=branching,
            cancelled=self._cancelled,
            elapsed_s=self._elapsed_s,
            requests=RequestStatistics.total(requests),
        )


def _drafts(action: str, record: RequestRecord[Any, Any, Any]) -> bool:
    """Whether the action drafts anything: the empty block of plain decoding is no draft."""
    return action == "branch" or (action == "draft" and record.round is not None and record.round.depth.count > 0)
