"""What a request tells the world, and only after the commit that made it true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eredu.contract.statistics import RequestStatistics
from eredu.contract.terminal import FinishReason


@dataclass(frozen=True, slots=True)
class TokensCommitted:
    """Output tokens that are final.

    Attributes:
        request: Number of the request.
        position: Output position of the first of them.
        tokens: Their ids, a terminal one included.
        text: Text that became visible with them; stop strings and held-back text are not in it.
    """

    request: int
    position: int
    tokens: tuple[int, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """The last event of a request.

    Attributes:
        request: Number of the request.
        reason: Why the output ended.
        statistics: Final counters.
    """

    request: int
    reason: FinishReason
    statistics: RequestStatistics


Event = TokensCommitted | RequestFinished
EventSink = Callable[[Event], None]
