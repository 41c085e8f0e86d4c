"""Replay of traces: an engine's events are followed through the machine, and the first broken rule is named.

Nothing here knows what a round is: every event has to be the event form of some successor of some state that the
events in front of it allow, and the submission of a group is as many events, one
behind the other. Tokens of a trace are ids and those of the machine masks, so what is compared is their number, and
which of them end the output where the trace says by what.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, NamedTuple

from eredu_spec.diagnosis import broken_rule, misplaced_rule
from eredu_spec.events import ACTIONS, FIELDS, Event, event_of
from eredu_spec.phases import LIVE, SUBMITTED, Phase
from eredu_spec.request import Request, Settings
from eredu_spec.scope import Scope
from eredu_spec.sites import obeys
from eredu_spec.state import State, evolve, moved, opened
from eredu_spec.structure import Structure
from eredu_spec.successors import successors
from eredu_spec.terminal import EOS, STOP, Terminals
from eredu_spec.trace_form import TraceFormError, check_form, read

__all__ = ["Finding", "Replay", "TraceFormError", "check", "read"]

UNBOUNDED = 1 << 62
_CALLER_OR_CONTEXT = {"finish": {"length", "context"}, "clip": {"budget", "target-context"}}
"""Names that only `max_tokens` tells apart."""

EVERY_MASK = tuple(range(1, 8))
"""Terminal conditions a token can meet, in every combination."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The first event that the machine cannot follow.

    Attributes:
        index: Its place in the trace, from 0.
        rule: The rule it breaks, as well as can be told.
        message: What the event said, and what was expected.
    """

    index: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"event {self.index} breaks {self.rule}: {self.message}"


def check(events: Iterable[Event], *, ring: bool = True, is_complete: bool = False) -> Finding | None:
    """Follow a trace; return the first broken rule, or None.

    Args:
        events: The events, in the order in which they were written.
        ring: Whether turns must follow the ring.
        is_complete: Whether every request must have been closed.
    """
    replay = Replay(ring=ring)
    index = -1
    for index, event in enumerate(events):
        finding = replay.follow(index, event)
        if finding is not None:
            return finding
    return replay.unfinished(index + 1) if is_complete else None


Moved = tuple[Request, Request]


class Position(NamedTuple):
    """A place that the events so far allow.

    Attributes:
        state: The state of the machine, in front of or behind an edge.
        due: Moves of that edge that the trace has still to tell: those of a group's other members.
    """

    state: State
    due: tuple[Moved, ...] = ()


class Replay:
    """A trace in the making: the positions that the events so far allow.

    Attributes:
        positions: Those positions; several where the trace leaves open what happened.
        terminals: What ends the output of each request, as far as its `open` says.
        outputs: Ids emitted by each request.
        closed: Requests that were closed.
    """

    def __init__(self, *, ring: bool = True) -> None:
        self.scope = Scope(requests=(), ring=ring, cancellations=True, max_in_flight=UNBOUNDED, max_branches=UNBOUNDED)
        self._failing = replace(self.scope, failures=True)
        self.positions: tuple[Position, ...] = (Position(()),)
        self.terminals: dict[int, Terminals] = {}
        self.outputs: dict[int, tuple[int, ...]] = {}
        self.closed: set[int] = set()
        self._with_max_tokens: set[int] = set()
        self._turn, self._action = -1, ""
        self._resolving: int | None = None

    def follow(self, index: int, event: Event) -> Finding | None:
        """Take one more event; return what it breaks, or None."""
        check_form(event)
        name, number = event["event"], event["request"]
        if name != "open" and number not in self.terminals:
            raise TraceFormError(f"event {index} is of request {number}, which was not opened")
        if number in self.closed:
            return Finding(index, "events.append-only", f"'{name}' of request {number} behind its close")
        if (broken := self._incomplete(event) or self._misturned(event)) is not None:
            return Finding(index, *broken)
        if name == "open":
            return self._open(index, event)
        return self._close(index, event) if name == "close" else self._step(index, event)

    def unfinished(self, index: int) -> Finding | None:
        """What is broken if the trace ends here, in front of event `index`."""
        left = sorted(self.terminals.keys() - self.closed)
        if not left:
            return None
        return Finding(index, "scheduling.every-request-ends", f"the trace ends before requests {left} are closed")

    def _open(self, index: int, event: Event) -> Finding | None:
        number = event["request"]
        if number in self.terminals:
            raise TraceFormError(f"event {index} opens request {number} a second time")
        bounds = {name: event[name] for name in ("max_in_flight", "max_branches") if event.get(name) is not None}
        self.scope = replace(self.scope, **bounds, max_group=event.get("max_group", 1))
        self._failing = replace(self.scope, failures=True)
        eos, stops = event.get("eos_ids"), event.get("stop_sequences")
        self.terminals[number] = Terminals(eos=frozenset(eos or ()), stops=tuple(tuple(stop) for stop in stops or ()))
        if event.get("max_tokens") is not None:
            self._with_max_tokens.add(number)
        settings = _settings(event)
        if event["budget"] != settings.budget:
            return Finding(index, "terminal.budget-counts-tokens", _message(event, "budget", [settings.budget]))
        request = opened(settings)
        # A turn that wrote nothing may lie in front of it, and has moved the ring.
        self.positions = tuple(Position((*state, request)) for state, _ in self._rests(self.scope))
        self.outputs[number] = ()
        return None

    @obeys("scheduling.turn-uninterrupted")
    def _misturned(self, event: Event) -> tuple[str, str] | None:
        """The rule that is broken, and how, where the event stands in a turn that is not its own."""
        name, number, turn = event["event"], event["request"], event["turn"]
        if turn < self._turn or (name in ACTIONS and turn == self._turn and not self._due_now(event)):
            taken = f"'{name}' of request {number} in turn {turn}, and turn {self._turn} was taken already"
            return self._crowded_rule(event), taken
        is_inside = name in {"commit", "publish", "close"} and number == self._resolving
        if self._resolving is not None and not (is_inside or name == "open"):
            return "commit.order", f"'{name}' of request {number} inside the resolution of request {self._resolving}"
        if name in {"commit", "publish"} and turn != self._turn and self._resolving is not None:
            return "scheduling.turn-uninterrupted", f"'{name}' in turn {turn}, its resolution was turn {self._turn}"
        self._turn = turn
        if name in ACTIONS:
            self._action = name
        return None

    def _crowded_rule(self, event: Event) -> str:
        """The rule behind an action in a turn that is taken: one request too many in a group, or a turn too few."""
        joins = event["event"] == self._action == "submit" and event["turn"] == self._turn
        if not joins or all(request.phase is not Phase.READY_TO_SUBMIT for request in self._each(event["request"])):
            return "scheduling.turn-uninterrupted"
        in_flight = min(sum(request.phase in SUBMITTED for request in state) for state, _ in self.positions)
        return "scheduling.in-flight-bound" if in_flight >= self.scope.max_in_flight else "scheduling.ring"

    def _due_now(self, event: Event) -> list[Position]:
        """The positions whose next event is due, and is this one: the same turn submits one request more, or fails."""
        if event["turn"] != self._turn:
            return []
        wanted = {"event": event["event"], "request": event["request"]}
        if event["event"] == "close" and event["finish"] == "failed":
            wanted["event"] = "fail"
        return [
            position for position in self.positions if position.due and wanted.items() <= _told(position.due[0]).items()
        ]

    @obeys("scheduling.ring")
    def _incomplete(self, event: Event) -> tuple[str, str] | None:
        """The rule that is broken, and how, where a group lacks a member; else only positions that go on are kept."""
        due = self._due_now(event)
        going_on = due or [position for position in self.positions if not position.due]
        open_groups = [position for position in self.positions if position.due]
        skips = event["event"] == "submit" and event["turn"] == self._turn and open_groups and not due
        if not going_on or (skips and self.scope.ring):
            missing = _told(open_groups[0].due[0])["request"]
            return "scheduling.ring", f"the group of turn {self._turn} lacks request {missing}, which was ready"
        self.positions = tuple(going_on)
        return None

    def _step(self, index: int, event: Event) -> Finding | None:
        """Follow an event that is a step of the machine."""
        if event["event"] == "resolve":
            self.positions = self._narrowed(event)
        same = [(seen, after) for seen, after in self._steps_of(event) if seen["event"] == event["event"]]
        if not same:
            rule = (
                "scheduling.ring"
                if self._is_out_of_ring(event)
                else misplaced_rule(event, max(self._each(event["request"]), key=lambda request: request.planned))
            )
            return Finding(index, rule, self._misplaced_message(event))
        agreeing = same
        for field in FIELDS[event["event"]]:
            expected = [seen[field] for seen, _ in agreeing]
            agreeing = [(seen, after) for seen, after in agreeing if self._agrees(field, seen, event)]
            if not agreeing:
                return Finding(index, broken_rule(event, field, expected), _message(event, field, expected))
        self._accept(event, tuple(dict.fromkeys(after for _, after in agreeing)))
        return None

    def _steps_of(self, event: Event) -> list[tuple[Event, Position]]:
        """What may be seen of the event's request now: what is due of a group, or the first event of an edge."""
        if any(position.due for position in self.positions):
            return [(_told(due[0]), Position(state, due[1:])) for state, due in self.positions]
        return list(self._steps(event["request"], self._failing if event["event"] == "submit" else self.scope))

    def _narrowed(self, event: Event) -> tuple[Position, ...]:
        """The states, with only outcomes of the accepted length that the event tells; all of them would be many."""
        settings = self._request(event["request"]).settings
        model = Structure(terminal=EVERY_MASK, accepted=event["accepted"])
        told = replace(settings, model=model)
        return tuple(
            Position(tuple(evolve(r, settings=told) if r.settings.number == settings.number else r for r in state))
            for state, _ in self.positions
        )

    def _misplaced_message(self, event: Event) -> str:
        """Where the request stands, and which events of which requests were due instead."""
        phases = sorted({request.phase.value for request in self._each(event["request"])})
        due = sorted({(seen["request"], seen["event"]) for seen, _ in self._steps(None, self.scope)})
        expected = ", ".join(f"'{name}' of request {number}" for number, name in due) or "nothing more"
        return f"'{event['event']}' of request {event['request']} in phase {' or '.join(phases)}; expected {expected}"

    def _accept(self, event: Event, positions: tuple[Position, ...]) -> None:
        self.positions = positions
        if event["event"] == "resolve":
            self._resolving = event["request"]
            self.outputs[event["request"]] += tuple(event["emitted"])
        elif event["event"] == "publish":
            self._resolving = None

    def _steps(self, number: int | None, scope: Scope) -> Iterator[tuple[Event, Position]]:
        """The first event of each visible edge of a request (None: of any), silent edges of any in front of them."""
        for _, steps in self._rests(scope):
            for event, position in steps:
                if number is None or event["request"] == number:
                    yield event, position

    def _rests(self, scope: Scope) -> Iterator[tuple[State, list[tuple[Event, Position]]]]:
        """The states and those behind silent edges of any request, each with the first events of its visible edges."""
        todo = [state for state, _ in self.positions]
        known = set(todo)
        while todo:
            state, steps = todo.pop(), []
            for _, _, after in successors(state, scope):
                # Only the ring says in which order a group's members are told.
                for first, *others in [moved(state, after)] if scope.ring else permutations(moved(state, after)):
                    event = event_of(*first)
                    if event is not None:
                        steps.append((event, Position(after, tuple(others))))
                    elif after not in known:
                        known.add(after)
                        todo.append(after)
            yield state, steps

    def _is_out_of_ring(self, event: Event) -> bool:
        """Whether the step would be right if the ring did not say otherwise."""
        free = replace(self.scope, ring=False)
        return self.scope.ring and any(
            seen["event"] == event["event"] for seen, _ in self._steps(event["request"], free)
        )

    def _agrees(self, field: str, seen: Event, event: Event) -> bool:
        """Whether a field of an event is what a step would have written."""
        said, expected = event[field], seen[field]
        if field == "tokens" and event["event"] == "publish":
            emitted = self.outputs[event["request"]]
            return len(said) == len(expected) and tuple(said) == emitted[len(emitted) - len(said) :]
        if field == "tokens":
            has_bonus = len(expected) > event["accepted"]
            return len(said) == len(expected) or (not has_bonus and len(said) == len(expected) + 1)
        if field == "emitted":
            return said == event["tokens"][: len(said)] and self._has_masks(event["request"], said, expected)
        if field in _CALLER_OR_CONTEXT and {said, expected} == _CALLER_OR_CONTEXT[field]:
            return event["request"] not in self._with_max_tokens
        return bool(said == expected)

    def _has_masks(self, number: int, ids: list[int], masks: list[int]) -> bool:
        """Whether the ids meet the conditions of the masks, as far as the `open` says which ids meet them."""
        terminals, output = self.terminals[number], self.outputs[number]
        if len(ids) != len(masks):
            return False
        for place, (token, mask) in enumerate(zip(ids, masks, strict=True)):
            met = terminals.conditions(output + tuple(ids[:place]), token)
            wrong = (met ^ mask) & (EOS if terminals.eos else 0) | (met & ~mask & STOP)
            if wrong:
                return False
        return True

    def _each(self, number: int) -> Iterator[Request]:
        """The request in every position."""
        return (self._request(number, position) for position in self.positions)

    def _request(self, number: int, position: Position | None = None) -> Request:
        return next(r for r in (position or self.positions[0]).state if r.settings.number == number)

    def _close(self, index: int, event: Event) -> Finding | None:
        """Follow the end of a request: its finish is known, and its statistics are the machine's."""
        number = event["request"]
        if event["finish"] == "failed" and (due_now := self._due_now(event)):
            self.positions = tuple(Position(state, due[1:]) for state, due in due_now)
        elif event["finish"] == "failed" and self._request(number).phase in LIVE:
            phase, ends = self._request(number).phase, self._failed(number)
            if not ends:
                rule = "scheduling.in-flight-bound" if phase == Phase.READY_TO_SUBMIT else "scheduling.phase-edges"
                return Finding(index, rule, f"request {number} failed in phase {phase}, where it had to wait")
            self.positions, self._resolving = ends, None
        request = self._request(number)
        if request.phase in LIVE or not self._agrees("finish", {"finish": request.finish}, event):
            rule = "terminal.order" if request.phase not in LIVE else "scheduling.phase-edges"
            return Finding(index, rule, _message(event, "finish", [request.finish or request.phase.value]))
        for name, value in request.statistics._asdict().items():
            if event["statistics"].get(name) != value:
                said = event["statistics"].get(name)
                rule = broken_rule(event, name, [value])
                return Finding(index, rule, f"'close' of request {number} says {name} = {said}; expected {value}")
        self.closed.add(number)
        return None

    def _failed(self, number: int) -> tuple[Position, ...]:
        """The positions behind a failure of the request, in a turn that serves it or while it was cancelled."""
        scopes = (self._failing, replace(self._failing, ring=False, max_group=1))
        ends = [after for scope in scopes for seen, after in self._steps(number, scope) if seen["event"] == "fail"]
        return tuple(dict.fromkeys(ends))


def _told(move: Moved) -> Event:
    """The event of a member's move, which is never silent."""
    event = event_of(*move)
    assert event is not None, "the members of a group are submitted or fail"
    return event


def _settings(event: Event) -> Settings:
    """The settings that an `open` describes."""
    try:
        return Settings(
            model=Structure(terminal=EVERY_MASK),
            number=event["request"],
            prompt=(0,) * event["prompt_length"],
            max_tokens=event["budget"] if event.get("max_tokens") is None else event["max_tokens"],
            requested=event["max_proposals"],
            rule=event["rule"],
            lookahead_depth=event["lookahead_depth"],
            window=event["window"],
            capability=event.get("capability"),
            target_context=event.get("target_context"),
            drafter_context=event.get("drafter_context"),
            exact_promotion=event.get("exact_promotion", True),
            needs_hidden=event.get("needs_hidden") or False,
            prefill_chunk=event.get("prefill_chunk") or 512,
            counts=True,
        )
    except ValueError as error:
        raise TraceFormError(f"'open' of request {event['request']} cannot be: {error}") from error


def _message(event: Event, field: str, expected: list[Any]) -> str:
    values = sorted({json.dumps(value) for value in expected})
    return (
        f"'{event['event']}' of request {event['request']} says {field} = {json.dumps(event[field])}; "
        f"expected {' or '.join(values)}"
    )
