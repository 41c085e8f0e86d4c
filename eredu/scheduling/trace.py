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
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.resolution import Resolution

TraceSink = Callable[[dict[str, object]], None]
State = RequestState[Any, Any, Any]
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


Fields = Callable[Concatenate["Tracer", State, P], dict[str, Any]]
Write = Callable[Concatenate["Tracer", State, P], None]


def _event(name: str) -> Callable[[Fields[P]], Write[P]]:
    """Turn a method that gives an event's fields into one that writes it; without a sink no field is computed."""

    def writing(fields: Fields[P]) -> Write[P]:
        def write(self: Tracer, state: State, /, *args: P.args, **kwargs: P.kwargs) -> None:
            if self._sink is not None:
                head = {"event": name, "turn": self.turn, "request": state.request.index}
                self._sink({**head, **fields(self, state, *args, **kwargs)})

        write.__doc__ = fields.__doc__
        return write

    return writing


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

    @_event("open")
    def open(self, state: State, options: MtpSchedulerOptions, traits: ExecutorTraits) -> dict[str, Any]:
        """The request was taken in."""
        wanted = state.request.options
        self._unfed[state.request.index] = len(state.request.prompt) - 1
        return {
            "prompt_length": len(state.request.prompt),
            "budget": state.watch.budget,
            "max_proposals": wanted.max_proposals,
            "rule": "greedy" if wanted.sampling.is_greedy else str(wanted.acceptance),
            "root": list(state.request.randomness.root),
            "lookahead_depth": wanted.branch_length if options.lookahead else None,
            "window": state.adaptive.window,
            "capability": traits.max_proposals,
            "target_context": traits.target_context,
            "drafter_context": traits.drafter_context,
            "max_tokens": wanted.max_tokens,
            "exact_promotion": traits.exact_promotion,
            "needs_hidden": traits.needs_hidden,
            "prefill_chunk": options.prefill_chunk,
            "max_in_flight": options.max_in_flight,
            "max_branches": options.max_branches,
            "max_group": options.max_group,
            "eos_ids": sorted(state.watch.eos_ids),
            "stop_sequences": [list(stop) for stop in state.watch.stops.sequences],
        }

    @_event("prefill")
    def prefill(self, state: State, left: int) -> dict[str, Any]:
        """A chunk of the prompt was fed; `left` tokens of it are not, the last one apart."""
        self._unfed[state.request.index] = left
        return {"left": left}

    @_event("draft")
    def draft(self, state: State, count: int, reused: int) -> dict[str, Any]:
        """A block was drafted or topped up."""
        clip = None
        if state.round is not None:
            clip = "grammar" if count < state.round.depth.count else str(state.round.depth.reason)
        return {
            "position": len(state.output),
            "requested": state.request.options.max_proposals,
            "reused": reused,
            "k": count,
            "clip": clip,
        }

    @_event("submit")
    def submit(self, state: State, rows: int) -> dict[str, Any]:
        """A verification was started."""
        return {"position": len(state.output), "rows": rows}

    @_event("branch")
    def branch(self, state: State, planned: int, drafted: int) -> dict[str, Any]:
        """A lookahead branch was drafted."""
        return {"position": len(state.output), "planned": planned, "drafted": drafted}

    @_event("resolve")
    def resolve(self, state: State, outcome: VerificationOutcome, resolution: Resolution) -> dict[str, Any]:  # noqa: ARG002
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

    @_event("commit")
    def commit(self, state: State, kept: int) -> dict[str, Any]:
        """The executor's caches were settled."""
        return {"kept": kept, "cache_length": state.committed - 1 + kept}

    @_event("publish")
    def publish(self, state: State, walk: Walk) -> dict[str, Any]:  # noqa: ARG002
        """The state was installed, and its tokens were queued for publication."""
        return {"tokens": list(walk.emitted), "finish": _name(walk.finish)}

    @_event("cancel")
    def cancel(self, state: State, phase: Phase) -> dict[str, Any]:
        """A request was cancelled in a phase."""
        self._cancelled.add(state.request.index)
        unfed = self._unfed.get(state.request.index, 0) if phase is Phase.PREFILL else 0
        return {"phase": str(phase), "cache_length": state.committed - 1 - unfed}

    @_event("close")
    def close(self, state: State) -> dict[str, Any]:
        """A request ended. One that was interrupted inside an action failed there, whatever its caller is told."""
        interrupted = state.finish is FinishReason.CANCELLED and state.request.index not in self._cancelled
        finish = FinishReason.FAILED if interrupted else state.finish
        return {"finish": _name(finish), "statistics": {name: getattr(state.statistics, name) for name in COUNTERS}}


def _name(finish: FinishReason | None) -> str | None:
    return None if finish is None else finish.value
