"""Watches one request of eredu from outside: when its rounds were published, and what the scheduler's trace says."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import mlx.core as mx

from eredu.contract.events import Event, TokensCommitted
from eredu_benchmarks.run import Timing, VerifiedRound


class Stopwatch:
    """An event sink and a trace sink in one; starts when it is made."""

    def __init__(self) -> None:
        self._proposals = 0
        self._rounds: list[VerifiedRound] = []
        self._marks: list[tuple[float, int]] = []
        self._started_s = time.perf_counter()

    def on_event(self, event: Event) -> None:
        """Note when a round was published."""
        if isinstance(event, TokensCommitted) and event.tokens:
            self._marks.append((time.perf_counter() - self._started_s, len(event.tokens)))

    def on_action(self, action: dict[str, Any]) -> None:
        """Note the depth of a block and what its verification gave."""
        if action["event"] == "draft":
            self._proposals = action["k"]
        elif action["event"] == "resolve":
            self._rounds.append(VerifiedRound(self._proposals, action["accepted"], len(action["emitted"])))

    @property
    def timing(self) -> Timing:
        """When the tokens came, once all have."""
        return timing(self._marks)

    @property
    def rounds(self) -> tuple[VerifiedRound, ...]:
        """The verifications so far."""
        return tuple(self._rounds)


def timing(marks: list[tuple[float, int]]) -> Timing:
    """Timing of rounds given as (seconds since the request, tokens), the earliest first; at least one."""
    total = sum(tokens for _, tokens in marks)
    return Timing(first_s=marks[0][0], first_tokens=marks[0][1], total_s=marks[-1][0], total_tokens=total)


def timed_steps(
    steps: Generator[list[int], None, None], *, started_s: float, eos_ids: frozenset[int]
) -> tuple[tuple[int, ...], Timing]:
    """Run a peer's loop, step by step of one or more tokens, to its end or to an end-of-sequence id.

    Returns:
        The output ids, an end-of-sequence id included, and when they came.
    """
    tokens: list[int] = []
    marks: list[tuple[float, int]] = []
    for step in steps:
        ended = next((at for at, token in enumerate(step, start=1) if token in eos_ids), None)
        tokens.extend(step[:ended])
        marks.append((time.perf_counter() - started_s, len(step[:ended])))
        if ended is not None:
            break
    steps.close()
    mx.synchronize()  # a step that ran ahead of the end must not run into the next measurement
    return tuple(tokens), timing(marks)
