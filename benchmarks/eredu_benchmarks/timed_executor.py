"""An executor that is watched from outside: how long its calls took, and so what the scheduler keeps for itself."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eredu.contract.constraint import Constraint
from eredu.contract.executor import CommitPlan, ExecutorTraits, SpeculativeExecutor, Submission, VerificationOutcome
from eredu.contract.request import GenerationRequest

Settle = Callable[[Any], None]
"""Waits until the device has done what a call left it to do for a sequence."""


@dataclass
class CallTimes:
    """Seconds inside executor calls, by the call's name.

    Attributes:
        seconds: Their sums.
        rounds: Verifications waited for.
    """

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    rounds: int = 0


class TimedExecutor:
    """Passes every call on.

    Args:
        inner: Does the work.
        times: Are added to.
        settle: Waits for the device behind each commit, so that a lazy rollback is paid where it is caused; None
            leaves the device alone, as decoding does.
    """

    def __init__(self, inner: SpeculativeExecutor[Any, Any, Any], times: CallTimes, settle: Settle | None) -> None:
        self._inner, self._times, self._settle = inner, times, settle

    @property
    def traits(self) -> ExecutorTraits:
        """Those of the watched executor."""
        return self._inner.traits

    def open(self, request: GenerationRequest) -> Any:
        """See `SpeculativeExecutor`."""
        return self._timed("open", self._inner.open, request)

    def prefill(self, sequence: Any, limit: int) -> int:
        """See `SpeculativeExecutor`."""
        left: int = self._timed("prefill", self._inner.prefill, sequence, limit)
        return left

    def draft(self, sequence: Any, count: int, promoted: Any, constraint: Constraint | None) -> Any:
        """See `SpeculativeExecutor`."""
        return self._timed("draft", self._inner.draft, sequence, count, promoted, constraint)

    def submit(self, group: Sequence[Submission[Any, Any]]) -> list[Any]:
        """See `SpeculativeExecutor`."""
        entries: list[Any] = self._timed("submit", self._inner.submit, group)
        return entries

    def branch(self, sequence: Any, block: Any, count: int) -> Any:
        """See `SpeculativeExecutor`."""
        return self._timed("branch", self._inner.branch, sequence, block, count)

    def wait(self, sequence: Any, verification: Any) -> VerificationOutcome:
        """See `SpeculativeExecutor`."""
        self._times.rounds += 1
        outcome: VerificationOutcome = self._timed("wait", self._inner.wait, sequence, verification)
        return outcome

    def bonus_guess(self, sequence: Any, branch: Any) -> int:
        """See `SpeculativeExecutor`."""
        head: int = self._timed("bonus_guess", self._inner.bonus_guess, sequence, branch)
        return head

    def commit(self, sequence: Any, plan: CommitPlan, branch: Any) -> Any:
        """See `SpeculativeExecutor`."""
        return self._timed("commit", self._commit, sequence, plan, branch)

    def close(self, sequence: Any) -> None:
        """See `SpeculativeExecutor`."""
        self._timed("close", self._inner.close, sequence)

    def _commit(self, sequence: Any, plan: CommitPlan, branch: Any) -> Any:
        promoted = self._inner.commit(sequence, plan, branch)
        if self._settle is not None:
            self._settle(sequence)
        return promoted

    def _timed(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self._times.seconds[name] += time.perf_counter() - begun
