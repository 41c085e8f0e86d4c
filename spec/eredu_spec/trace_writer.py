"""Traces written by the machine itself: a walk through the successors, told in the words of `trace.md`.

They are test vectors for whatever reads traces, the replay among it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eredu_spec.events import event_of
from eredu_spec.explorer import Step
from eredu_spec.phases import Stage, is_live
from eredu_spec.scope import Scope
from eredu_spec.settings import Settings
from eredu_spec.state import Request
from eredu_spec.structure import Structure
from eredu_spec.successors import Edge, successors
from eredu_spec.terminal import EOS, GRAMMAR, STOP

Event = dict[str, Any]
Choose = Callable[[list[Edge]], Edge]

FIRST_ID = 100
"""Id of an ordinary token; that of another is this plus the mask of the conditions it meets."""


def told(scope: Scope) -> Scope:
    """The scope with books, single terminal conditions, and no cancellation from callbacks, which write no event."""
    requests = tuple(
        replace(settings, counts=True, model=Structure(terminal=(STOP, GRAMMAR, EOS))) for settings in scope.requests
    )
    return replace(scope, requests=requests, callbacks=False, memory=Scope(requests=()).memory)


def write(scope: Scope, choose: Choose) -> list[Event]:
    """The trace of one walk to the end of every request."""
    state, turn = scope.start(), 0
    events = [_opening(request.settings, scope) for request in state]
    while edges := successors(state, scope):
        rule, _, after = choose(edges)
        before = {request.settings.number: request for request in state}
        moved = next(request for request in after if before[request.settings.number] is not request)
        source = before[moved.settings.number]
        turn += source.stage == Stage.IDLE and moved.finish not in {"cancelled", "failed"}
        event = event_of(Step(rule, source, moved))
        if event is not None and event["event"] != "fail":
            events.append({**event, **_with_ids(event), "turn": turn})
        if not is_live(moved.phase):
            events.append(_closing(moved, turn))
        state = after
    return events


def _with_ids(event: Event) -> Event:
    return {name: [FIRST_ID + mask for mask in event[name]] for name in ("tokens", "emitted") if name in event}


def _opening(settings: Settings, scope: Scope) -> Event:
    return {
        "event": "open",
        "turn": 0,
        "request": settings.number,
        "prompt_length": len(settings.prompt),
        "budget": settings.budget,
        "max_proposals": settings.requested,
        "rule": settings.rule,
        "root": [0, 7],
        "lookahead_depth": settings.lookahead_depth,
        "window": settings.window,
        "prefill_chunk": settings.prefill_chunk,
        "max_in_flight": scope.max_in_flight,
        "max_branches": scope.max_branches,
        "eos_ids": [FIRST_ID + mask for mask in range(8) if mask & EOS],
    }


def _closing(request: Request, turn: int) -> Event:
    statistics = request.books._asdict()
    number = request.settings.number
    return {"event": "close", "turn": turn, "request": number, "finish": request.finish, "statistics": statistics}
