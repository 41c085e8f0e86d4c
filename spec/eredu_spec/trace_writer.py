"""Traces written by the machine itself: a walk through the successors, told in the words of `trace.md`.

They are test vectors for whatever reads traces, the replay among it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eredu_spec.events import event_of
from eredu_spec.phases import LIVE, Phase, Stage
from eredu_spec.request import Request, Settings
from eredu_spec.scope import Scope
from eredu_spec.state import moved
from eredu_spec.structure import Structure
from eredu_spec.successors import Edge, successors
from eredu_spec.terminal import EOS, GRAMMAR, STOP

Event = dict[str, Any]
Choose = Callable[[list[Edge]], Edge]

FIRST_ID = 100
"""Id of an ordinary token; that of another is this plus the mask of the conditions it meets."""


def told(scope: Scope) -> Scope:
    """The scope with statistics and single terminal conditions, and without callbacks, which write no event."""
    requests = tuple(
        replace(settings, counts=True, model=Structure(terminal=(STOP, GRAMMAR, EOS))) for settings in scope.requests
    )
    return replace(scope, requests=requests, callbacks=False)


def write(scope: Scope, choose: Choose) -> list[Event]:
    """The trace of one walk to the end of every request."""
    state, turn = scope.start(), 0
    events = [_opening(request.settings, scope) for request in state]
    while edges := successors(state, scope):
        _, _, after = choose(edges)
        moves = moved(state, after)
        turn += any(was.stage is Stage.IDLE and request.phase is not Phase.CANCELLED for was, request in moves)
        for was, request in moves:
            event = event_of(was, request)
            if event is not None and event["event"] != "fail":
                events.append({**event, **_with_ids(event), "turn": turn})
            if request.phase not in LIVE:
                events.append(_closing(request, turn))
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
        "max_group": scope.max_group,
        "eos_ids": [FIRST_ID + mask for mask in range(8) if mask & EOS],
    }


def _closing(request: Request, turn: int) -> Event:
    statistics = request.statistics._asdict()
    number = request.settings.number
    return {"event": "close", "turn": turn, "request": number, "finish": request.finish, "statistics": statistics}
