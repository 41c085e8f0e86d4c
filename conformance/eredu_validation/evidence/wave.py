"""A wave: the requests that were planned together, so that a run goes on as it would have without an interruption."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Wave:
    """What was planned of a run at once.

    Attributes:
        stop: Number of the first request behind it.
        longest: Output tokens of each of its requests, at the most.
        needed: Tokens of the goal that it was planned for.
    """

    stop: int
    longest: int
    needed: int
