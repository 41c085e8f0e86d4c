"""Portions: the requests of a run in their order, dealt out to several processes and taken back in order.

What a portion draws depends on its requests' numbers alone, and portions count in the order of their numbers, whoever
drew them and whichever was there first. So the evidence is that of one process, and no look at it ever depends on how
long an output is: counting whatever happens to be ready would favour short outputs, and the e-value would be none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eredu_validation.evidence.wave import Wave

MOST_AHEAD = 32
"""Portions that are drawn ahead of the evidence, at the most: what arrived is kept in memory."""

DrawnT = TypeVar("DrawnT")


@dataclass(frozen=True, slots=True)
class Portion:
    """Requests that are drawn together.

    Attributes:
        first: Number of the first of them within the run.
        count: How many.
        length: Output tokens of each at the most.
    """

    first: int
    count: int
    length: int

    @property
    def stop(self) -> int:
        """Number of the first request behind them."""
        return self.first + self.count


@dataclass
class WorkPlan(Generic[DrawnT]):
    """What is still to be drawn, what is being drawn, and what waits for its turn.

    Requests are planned in waves: as many as reach the goal if outputs are as long as they were so far; where they end
    sooner, another wave follows once the first was counted. So portions are the same for any number of processes.

    Attributes:
        first: Number of the next request that nobody has.
        taken: Tokens that became evidence.
        needed: Tokens that reach the goal.
        batch: Requests of a portion at the most.
        length: Output tokens of a request at the most.
        shares: Into how many portions the rest of a wave is split at least, so that all processes end together; it
            may not depend on their number.
        settled: Whether `needed` is final; until then it is a lower bound, and only whole portions are dealt.
        begun: The wave that an earlier session was in: this one goes on with it, if its goal is the same.
    """

    first: int
    taken: int
    needed: int
    batch: int
    length: int
    shares: int = 1
    settled: bool = True
    begun: Wave | None = None
    _end: int = field(init=False)
    """Number of the request behind the wave."""
    _longest: int = field(init=False)
    """Output tokens of a request of the wave, at the most."""
    _open: dict[Portion, DrawnT | None] = field(default_factory=dict, init=False)
    """Dealt portions in the order of their numbers, with what was drawn."""
    _returned: list[Portion] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._start = self.first
        self._plan_wave()

    def settle(self, needed: int) -> None:
        """Say how many tokens reach the goal: at least as many as were thought. Nothing may be counted before."""
        self.needed, self.settled = needed, True
        dealt, self.first = self.first, self._start
        self._plan_wave()
        self.first = dealt

    def deal(self) -> Portion | None:
        """The next portion to draw; None while those that are out may be enough."""
        if self._returned:
            return self._returned.pop(0)
        if not self._open and self.settled and self.first >= self._end:
            self._plan_wave()
        count = min(self.batch, -(-(self._end - self.first) // self.shares))
        if len(self._open) >= MOST_AHEAD or count < (1 if self.settled else self.batch):
            return None
        portion = Portion(self.first, count, self._longest)
        self.first = portion.stop
        self._open[portion] = None
        return portion

    def give_back(self, portion: Portion) -> None:
        """Let somebody else draw a portion next, whose process is lost."""
        self._returned = sorted([*self._returned, portion], key=lambda each: each.first)

    def arrive(self, portion: Portion, drawn: DrawnT) -> None:
        """Take what was drawn of a portion."""
        self._open[portion] = drawn

    @property
    def wave(self) -> Wave:
        """The wave that is being drawn."""
        return Wave(stop=self._end, longest=self._longest, needed=self.needed)

    @property
    def waiting(self) -> list[DrawnT]:
        """What was drawn and is not counted yet."""
        return [drawn for drawn in self._open.values() if drawn is not None]

    def due(self) -> tuple[Portion, DrawnT] | None:
        """The portion whose turn it is to be counted, once it was drawn."""
        portion = next(iter(self._open), None)
        drawn = None if portion is None else self._open[portion]
        return None if portion is None or drawn is None else (portion, drawn)

    def count(self, portion: Portion, taken: int) -> None:
        """Note that a portion has become evidence, and how many tokens were taken with it in all."""
        del self._open[portion]
        self.taken = taken

    def _plan_wave(self) -> None:
        if self.begun is not None and self.begun.needed == self.needed and self.begun.stop > self.first:
            self._longest, self._end = self.begun.longest, self.begun.stop
            return
        left = max(0, self.needed - self.taken)
        usual = min(self.length, self.taken / self.first) if self.taken else self.length
        self._longest = max(1, min(self.length, left))
        self._end = self.first + math.ceil(left / min(usual, self._longest))
