"""The trace: every action of the scheduler as one JSON-able event, for replay by the executable spec.

The vocabulary is the spec's (`trace.md` there): events, fields and their order. A trace holds no time and nothing else
that two runs of one seed could differ in. Without a sink no field is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from eredu.contract.executor import ExecutorTraits, VerificationOutcome
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.terminal import FinishReason, Walk
from eredu.scheduling.phase import Phase
from eredu.scheduling.request_state import RequestRecord
from eredu.scheduling.resolution import Resolution

TraceSink = Callable[[dict[str, object]], None]
Record = RequestRecord[Any, Any, Any]
P = ParamSpec("P")

COUNTERS = (
    "emitted",
    "target_tokens",
    "target_rows",
    "rounds",
    "drafted",
    "accepted",
    "rejected",
    "unexamined",
    "lookahead_blocks",
    "lookahead_promoted",
    "lookahead_drafted",
    "lookahead_consumed",
    "lookahead_reused",
    "lookahead_discarded",
    "bonus_matches",
    "bonus_mismatches",
    "lookahead_disabled",
)
"""Counters of `RequestStatistics` that a trace ends with."""


def _event(
    fields: Callable[Concatenate[Tracer, Record, P], dict[str, Any]],
) -> Callable[Concatenate[Tracer, Record, P], None]:
    """An event named like the method that gives its fields; the method is called only where a sink wants them."""

    def write(self: Tracer, record: Record, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self._sink is not None:
            head = {"event": fields.__name__, "turn": self.turn, "request": record.request.index}
            self._sink({**head, **fields(self, record, *args, **kwargs)})

    write.__doc__ = fields.__doc__
    return write


class Tracer:
    """Writes events to a sink.

    Args:
        sink: Takes each event as it happens; None wants none.

    Attributes:
        turn: Number of the scheduler's turn.
    """

    def __init__(self, sink: TraceSink | None) -> None:
        self._sink = sink
        self.turn = 0
        self._unfed: dict[int, int] = {}
        self._cancelled: set[int] = set()

    @_event
    def open(self, record: Record, options: MtpSchedulerOptions, traits: ExecutorTraits) -> dict[str, Any]:
        """The request was taken in."""
        wanted = record.request.options
        self._unfed[record.request.index] = len(record.request.prompt) - 1
        return {
            "prompt_length": len(record.request.prompt),
            "budget": record.watch.budget,
            "max_proposals": wanted.max_proposals,
            "rule": "greedy" if wanted.sampling.is_greedy else str(wanted.acceptance),
            "root": list(record.request.randomness.root),
            "lookahead_depth": wanted.branch_length if options.lookahead else None,
            "window": record.adaptive.window,
            "capability": traits.max_proposals,
            "target_context": traits.target_context,
            "drafter_context": traits.drafter_context,
            "max_tokens": wanted.max_tokens,
            "exact_promotion": traits.exact_promotion,
            "needs_hidden": traits.needs_hidden,
            "prefill_chunk": options.prefill_chunk,
            "max_in_flight": options.max_in_flight,
            "max_branches": options.max_branches,
            "eos_ids": sorted(record.watch.eos_ids),
            "stop_sequences": [list(stop) for stop in record.watch.stops.sequences],
        }

    @_event
    def prefill(self, record: Record, left: int) -> dict[str, Any]:
        """A chunk of the prompt was fed; `left` tokens of it are not, the last one apart."""
        self._unfed[record.request.index] = left
        return {"left": left}

    @_event
    def draft(self, record: Record, count: int, reused: int) -> dict[str, Any]:
        """A block was drafted or topped up."""
        clip = None
        if record.round is not None:
            clip = "grammar" if count < record.round.depth.count else str(record.round.depth.reason)
        return {
            "position": len(record.output),
            "requested": record.request.options.max_proposals,
            "reused": reused,
            "k": count,
            "clip": clip,
        }

    @_event
    def submit(self, record: Record, rows: int) -> dict[str, Any]:
        """A verification was started."""
        return {"position": len(record.output), "rows": rows}

    @_event
    def branch(self, record: Record, planned: int, drafted: int) -> dict[str, Any]:
        """A lookahead branch was drafted."""
        return {"position": len(record.output), "planned": planned, "drafted": drafted}

    @_event
    def resolve(self, record: Record, outcome: VerificationOutcome, resolution: Resolution) -> dict[str, Any]:  # noqa: ARG002
        """A verification was resolved on copies."""
        branch = resolution.branch
        return {
            "accepted": outcome.accepted,
            "replacement": outcome.accepted < len(outcome.proposals),
            "tokens": [*outcome.proposals[: outcome.accepted], outcome.token],
            "finish": _name(resolution.walk.finish),
            "emitted": list(resolution.walk.emitted),
            "branch": str(branch.outcome),
            "consumed": branch.consumed,
            "reused": branch.reused,
            "discarded": branch.drafted - branch.consumed - branch.reused,
        }

    @_event
    def commit(self, record: Record, kept: int) -> dict[str, Any]:
        """The executor's caches were settled."""
        return {"kept": kept, "cache_length": record.committed - 1 + kept}

    @_event
    def publish(self, record: Record, walk: Walk) -> dict[str, Any]:  # noqa: ARG002
        """The state was installed, and its tokens were queued for publication."""
        return {"tokens": list(walk.emitted), "finish": _name(walk.finish)}

    @_event
    def cancel(self, record: Record, phase: Phase) -> dict[str, Any]:
        """A request was cancelled in a phase."""
        self._cancelled.add(record.request.index)
        unfed = self._unfed.get(record.request.index, 0) if phase is Phase.PREFILL else 0
        return {"phase": str(phase), "cache_length": record.committed - 1 - unfed}

    @_event
    def close(self, record: Record) -> dict[str, Any]:
        """A request ended. One that was interrupted inside an action failed there, whatever its caller is told."""
        interrupted = record.finish is FinishReason.CANCELLED and record.request.index not in self._cancelled
        finish = FinishReason.FAILED if interrupted else record.finish
        return {"finish": _name(finish), "statistics": {name: getattr(record.statistics, name) for name in COUNTERS}}


def _name(finish: FinishReason | None) -> str | None:
    return None if finish is None else finish.value
