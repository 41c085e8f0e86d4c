"""The trace: every action of the scheduler as one JSON-able event, for replay by the executable spec.

The vocabulary is the spec's (`trace.md` there). With no sink, each call returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eredu.backend import VerificationOutcome
from eredu.options import MtpSchedulerOptions
from eredu.scheduling.phase import Phase
from eredu.scheduling.record import RequestRecord
from eredu.scheduling.resolution import Resolution
from eredu.terminal import Walk

TraceSink = Callable[[dict[str, Any]], None]
Record = RequestRecord[Any, Any, Any]


class Tracer:
    """Writes events to a sink, numbered by turn."""

    def __init__(self, sink: TraceSink | None) -> None:
        self._sink = sink
        self.turn = 0

    def _emit(self, event: str, record: Record, **fields: Any) -> None:
        if self._sink is not None:
            self._sink({"event": event, "turn": self.turn, "request": record.request.index, **fields})

    def open(self, record: Record, options: MtpSchedulerOptions) -> None:
        """A request was taken in."""
        wanted = record.request.options
        self._emit(
            "open",
            record,
            prompt_length=len(record.request.prompt),
            budget=record.watch.remaining,
            max_proposals=wanted.max_proposals,
            rule="greedy" if wanted.sampling.is_greedy else str(wanted.acceptance),
            root=list(record.request.randomness.root),
            lookahead_depth=wanted.branch_length if options.lookahead else None,
            window=record.adaptive.window,
        )

    def prefill(self, record: Record, left: int) -> None:
        """A chunk of the prompt was fed."""
        self._emit("prefill", record, left=left)

    def draft(self, record: Record, count: int, reused: int) -> None:
        """A block was drafted or topped up."""
        depth = record.round.depth if record.round is not None else None
        self._emit(
            "draft",
            record,
            position=len(record.output),
            requested=record.request.options.max_proposals,
            k=count,
            clip=None if depth is None else str(depth.reason),
            reused=reused,
        )

    def submit(self, record: Record, rows: int) -> None:
        """A verification was started."""
        self._emit("submit", record, position=len(record.output), rows=rows)

    def branch(self, record: Record, planned: int, drafted: int) -> None:
        """A lookahead branch was drafted."""
        self._emit("branch", record, position=len(record.output), planned=planned, drafted=drafted)

    def resolve(self, record: Record, outcome: VerificationOutcome, resolution: Resolution) -> None:
        """A verification was resolved on copies."""
        branch = resolution.branch
        self._emit(
            "resolve",
            record,
            accepted=outcome.accepted,
            replacement=outcome.accepted < len(outcome.proposals),
            tokens=[*outcome.proposals[: outcome.accepted], outcome.token],
            emitted=list(resolution.walk.emitted),
            finish=None if resolution.walk.finish is None else str(resolution.walk.finish),
            branch=str(branch.outcome),
            consumed=branch.consumed,
            reused=branch.reused,
            discarded=branch.drafted - branch.consumed - branch.reused,
        )

    def commit(self, record: Record, kept: int) -> None:
        """The executor's caches were settled."""
        self._emit("commit", record, kept=kept, cache_length=record.committed - 1 + kept)

    def publish(self, record: Record, walk: Walk) -> None:
        """Tokens were queued for publication."""
        self._emit(
            "publish", record, tokens=list(walk.emitted), finish=None if walk.finish is None else str(walk.finish)
        )

    def cancel(self, record: Record, phase: Phase) -> None:
        """A request was cancelled in a phase."""
        self._emit("cancel", record, phase=str(phase), cache_length=record.committed - 1)

    def close(self, record: Record) -> None:
        """A request ended."""
        self._emit("close", record, finish=str(record.finish), statistics=record.statistics.to_json())
