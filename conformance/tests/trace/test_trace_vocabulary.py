"""The engine writes what `trace.md` says: these events, these fields, in this order, and nothing at all when off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eredu.contract.options import GenerationOptions
from eredu.scheduling.trace import COUNTERS, Tracer
from eredu_conformance.harness.random_schedule import run_random_schedule
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_spec.events import FIELDS
from eredu_spec.statistics import Statistics
from eredu_spec.trace_form import OPTIONAL

SCRIPT = Script(16, (7, 8, 9), tuple(range(12)))


def test_each_event_has_the_fields_of_the_vocabulary_in_their_order() -> None:
    seen = set()
    for seed in range(20):
        for event in run_random_schedule(seed).trace:
            name = event["event"]
            more = OPTIONAL if name == "open" else ()
            assert tuple(event) == ("event", "turn", "request", *FIELDS[name], *more)
            assert json.loads(json.dumps(event)) == event
            seen.add(name)
    assert seen == set(FIELDS)


def test_the_counters_are_those_of_the_machine() -> None:
    assert Statistics._fields == COUNTERS


def test_every_event_of_the_vocabulary_is_a_method_of_the_tracer() -> None:
    written = {name for name in vars(Tracer) if not name.startswith("_")}
    assert written == set(FIELDS)


def test_a_trace_that_is_off_computes_no_field() -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"a trace that is off read {name}")

    tracer, record = Tracer(None), Untouchable()
    for name in FIELDS:
        getattr(tracer, name)(record, *[Untouchable()] * 3)


@pytest.mark.parametrize("delay_s", [0.0, 3.0])
def test_a_trace_holds_no_time(delay_s: float) -> None:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter((2,)), delays_s={"draft": delay_s, "verification": delay_s})
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=9, max_proposals=2)))
    text = json.dumps(table.trace)
    other = TableSchedule(SCRIPT.target, SCRIPT.drafter((2,)))
    other.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=9, max_proposals=2)))
    assert text == json.dumps(other.trace)
    assert '_s"' not in text
