"""Traces of the scheduler are runs of the machine, whatever is drawn, joined, cancelled or made to fail."""

from __future__ import annotations

from collections import Counter

import pytest

from eredu_conformance.harness.random_schedule import run_random_schedule
from eredu_spec.trace import check

SEEDS = 120
PART = 20


# rule: commit.order, scheduling.phase-edges, scheduling.ring, scheduling.turn-uninterrupted
# rule: scheduling.in-flight-bound, lookahead.bounded, lookahead.while-in-flight, lookahead.planned-length
# rule: lookahead.drafted-whole, promotion.consume-one-reuse-the-rest, promotion.top-up, adaptive.window
# rule: adaptive.disable-when-unpaid, draft.clip, verify.leading-token-first, statistics.committed-rounds-only
# rule: scheduling.every-request-ends
@pytest.mark.parametrize(
    "first",
    [*range(0, SEEDS, PART), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1000, 3000, PART))],
)
def test_a_schedule_s_trace_is_a_run_of_the_machine(first: int) -> None:
    for seed in range(first, first + PART):
        table = run_random_schedule(seed)
        finding = check(table.trace, is_complete=True)
        assert finding is None, f"schedule {seed}: {finding}"


def test_the_schedules_reach_every_event_finish_and_fate() -> None:
    traces = [run_random_schedule(seed).trace for seed in range(SEEDS)]
    events = [event for trace in traces for event in trace]
    seen = Counter((event["event"], event.get("finish")) for event in events if event["event"] == "close")
    for finish in ("stop", "grammar", "eos", "length", "cancelled", "failed"):
        assert seen["close", finish] >= 3, (finish, seen)
    branches = Counter(event["branch"] for event in events if event["event"] == "resolve")
    assert min(branches[fate] for fate in ("none", "promoted", "dropped")) >= 20
    cancelled = {event["phase"] for event in events if event["event"] == "cancel"}
    assert cancelled >= {"prefill", "ready-to-draft", "ready-to-submit", "verification-in-flight", "lookahead-ready"}
    clips = {event["clip"] for event in events if event["event"] == "draft"}
    assert clips >= {"request", "budget", "grammar"}
    assert any(event["event"] == "close" and event["statistics"]["lookahead_disabled"] for event in events)
    assert any(event["event"] == "draft" and 0 < event["reused"] < event["k"] for event in events)
