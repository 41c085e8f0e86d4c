"""Replay of traces: what the machine writes is followed, and what breaks a rule is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from random import Random
from typing import Any

import pytest

import eredu_spec
from eredu_spec.events import FIELDS
from eredu_spec.scopes import SCOPES, deep
from eredu_spec.structure import Structure
from eredu_spec.successors import Edge
from eredu_spec.trace import TraceFormError, check, read
from eredu_spec.trace_writer import told, write

Event = dict[str, Any]
RARE = ("cancellation", "commit.failure-changes-nothing")


def documented() -> list[Event]:
    """The examples of `trace.md`, which are one trace in the order in which they stand."""
    text = resources.files(eredu_spec).joinpath("trace.md").read_text(encoding="utf-8")
    return [json.loads(example) for example in re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)]


def at_random(random: Random) -> Callable[[list[Edge]], Edge]:
    """Any edge; leaving early is rare."""

    def choose(edges: list[Edge]) -> Edge:
        likely = [edge for edge in edges if not edge[0].startswith(RARE)]
        return random.choice(likely if likely and random.random() < 0.99 else edges)

    return choose


def going_on(edges: list[Edge]) -> Edge:
    """The edge that accepts everything, matches the guess and ends nothing."""
    likely = [edge for edge in edges if not edge[0].startswith(RARE) and not any(r.ended for r in edge[2])]
    unfinished = [edge for edge in likely if all(r.resolution is None or not r.resolution.finish for r in edge[2])]

    def gain(edge: Edge) -> list[tuple[int, int]]:
        return [(r.resolution.accepted, r.resolution.consumed) for r in edge[2] if r.resolution]

    return max(unfinished or likely, key=gain)


def promoted() -> list[Event]:
    """One request whose branches are promoted as often as its budget allows."""
    return write(replace(told(deep()), ring=True), going_on)


def test_the_documented_examples_are_a_trace() -> None:
    events = documented()
    assert {event["event"] for event in events} == FIELDS.keys()
    assert check(events, is_complete=True) is None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("name", SCOPES)
def test_what_the_machine_does_is_followed(name: str, ring: bool, seed: int) -> None:
    scope = replace(told(SCOPES[name]()), ring=ring)
    events = write(scope, at_random(Random(f"{name} {ring} {seed}")))
    finding = check(events, ring=ring, is_complete=True)
    assert finding is None, str(finding)


def test_a_promoted_branch_is_followed() -> None:
    events = promoted()
    assert [event["branch"] for event in events if event["event"] == "resolve"].count("promoted") >= 2
    assert check(events, is_complete=True) is None


# rule: draft.clip, terminal.budget-counts-tokens
@pytest.mark.parametrize("with_max_tokens", [True, False])
def test_what_the_caller_chose_and_what_the_model_sets_are_told_apart_by_max_tokens(*, with_max_tokens: bool) -> None:
    scope = told(deep())
    short = replace(scope.requests[0], model=Structure(terminal=()), prompt=(0, 0), target_context=8)
    events = write(replace(scope, requests=(short,)), going_on)
    assert {"request", "target-context"} == {event["clip"] for event in events if event["event"] == "draft"}
    assert events[-1]["finish"] == "context"
    events[0] |= {"target_context": 8} | ({"max_tokens": short.max_tokens} if with_max_tokens else {})
    assert check(events, is_complete=True) is None
    last = max(index for index, event in enumerate(events) if event["event"] == "draft")
    events[last] |= {"clip": "budget"}
    finding = check(events)
    assert (None if finding is None else (finding.index, finding.rule)) == (
        (last, "draft.clip") if with_max_tokens else None
    )


def test_a_trace_that_stops_is_complete_only_if_nobody_asks() -> None:
    assert check(documented()[:-2]) is None
    finding = check(documented()[:-2], is_complete=True)
    assert finding is not None
    assert finding.rule == "scheduling.every-request-ends"


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"event": "dance", "turn": 0, "request": 0}, "expected one of"),
        ({"event": "prefill", "turn": 0, "request": 0}, "left"),
        ({"event": "prefill", "turn": 0, "request": 3, "left": 0}, "not opened"),
        (documented()[0] | {"prompt_length": 0}, "opens request 0 a second time"),
        (documented()[0] | {"request": 1, "rule": "guess"}, "cannot be"),
    ],
)
def test_an_event_of_the_wrong_form_is_the_fault_of_its_writer(event: Event, complaint: str) -> None:
    with pytest.raises(TraceFormError, match=complaint):
        check([documented()[0], event])


def test_lines_are_read_one_event_each() -> None:
    assert list(read(['{"event": "open"}', "", '{"event": "draft"}'])) == [{"event": "open"}, {"event": "draft"}]
    with pytest.raises(TraceFormError, match="line 2"):
        list(read(["{}", "[1]"]))
