"""Traces of the engine, tampered with in every event and field: each is rejected, by the right rule where one is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from eredu_conformance.harness.random_schedule import run_random_schedule
from eredu_spec.events import ACTIONS, FIELDS
from eredu_spec.trace import TraceFormError, check

Event = dict[str, Any]
Trace = list[Event]
FORM = "form"

SEEDS = (9, 11, 12, 28, 42, 48)
"""Schedules without failures, which excuse what is missing behind them; together they have every event."""
MOST = 4
"""Places that are tampered with, of one event in one schedule."""

FIELD_RULES: dict[tuple[str, str], set[str]] = {
    ("open", "budget"): {"terminal.budget-counts-tokens", FORM},
    ("open", "max_tokens"): {"terminal.budget-counts-tokens", FORM},
    ("prefill", "left"): {"commit.leading-token-uncached"},
    ("draft", "position"): {"draft.from-frontier"},
    ("draft", "requested"): {"randomness.control-ignores-redrawable"},
    ("draft", "reused"): {"promotion.consume-one-reuse-the-rest"},
    ("draft", "k"): {"draft.clip", "promotion.top-up", "verify.leading-token-first"},
    ("draft", "clip"): {"draft.clip"},
    ("submit", "position"): {"draft.from-frontier"},
    ("submit", "rows"): {"verify.leading-token-first"},
    ("branch", "position"): {"lookahead.clone-of-frontier"},
    ("branch", "planned"): {"lookahead.planned-length"},
    ("branch", "drafted"): {
        "lookahead.drafted-whole",
        "statistics.lookahead-balance",
        "promotion.full-acceptance-and-equal-bonus",
        "promotion.consume-one-reuse-the-rest",
    },
    ("resolve", "accepted"): {"verify.first-rejection-ends", "bonus.after-full-acceptance"},
    ("resolve", "replacement"): {"verify.first-rejection-ends"},
    ("resolve", "tokens"): {
        "bonus.after-full-acceptance",
        "terminal.nothing-behind",
        "terminal.order",
        "terminal.budget-counts-tokens",
    },
    ("resolve", "finish"): {
        "terminal.order",
        "terminal.nothing-behind",
        "terminal.budget-counts-tokens",
        "promotion.full-acceptance-and-equal-bonus",
        "events.append-only",
    },
    ("resolve", "emitted"): {"terminal.nothing-behind"},
    ("resolve", "branch"): {
        "promotion.full-acceptance-and-equal-bonus",
        "promotion.consume-one-reuse-the-rest",
        "lookahead.drop-whole",
        "lookahead.while-in-flight",
    },
    ("resolve", "consumed"): {"promotion.consume-one-reuse-the-rest"},
    ("resolve", "reused"): {"promotion.consume-one-reuse-the-rest"},
    ("resolve", "discarded"): {"statistics.lookahead-balance"},
    ("commit", "kept"): {"commit.one-number"},
    ("commit", "cache_length"): {"rollback.exact-length"},
    ("publish", "tokens"): {"events.one-publication-a-commit"},
    ("publish", "finish"): {"events.append-only", "terminal.budget-counts-tokens"},
    ("cancel", "phase"): {"scheduling.phase-edges"},
    ("cancel", "cache_length"): {"cancellation.submitted-waits"},
    ("close", "finish"): {"terminal.order", "scheduling.phase-edges", "terminal.budget-counts-tokens"},
}
"""The rules that a wrong value of a field may be said to break: those of the first event where it cannot be true."""

BLIND = {("open", "root"), ("open", "rule")}
"""What a replay cannot judge: it sees no draw."""

WORDS = {
    "finish": ("stop", "grammar", "eos", "length", "context", None),
    "branch": ("promoted", "dropped", "none"),
    "clip": ("request", "capability", "budget", "target-context", "drafter-context", "hidden-state", "grammar"),
    "phase": ("prefill", "ready-to-draft", "ready-to-submit", "verification-in-flight", "lookahead-ready"),
}


@cache
def traces() -> tuple[Trace, ...]:
    return tuple(run_random_schedule(seed).trace for seed in SEEDS)


def places(name: str) -> Iterator[tuple[Trace, int]]:
    """Events of a name: of each trace as many as `MOST`, spread over it."""
    for trace in traces():
        found = [index for index, event in enumerate(trace) if event["event"] == name]
        for index in found[:: -(-len(found) // MOST) or 1]:
            yield trace, index


def verdict(events: Trace, *, ring: bool = True) -> str | None:
    """The rule that a trace breaks, `FORM` if it is none, None if it is right."""
    try:
        finding = check(events, ring=ring, is_complete=True)
    except TraceFormError:
        return FORM
    return None if finding is None else finding.rule


def changed(trace: Trace, index: int, **fields: Any) -> Trace:
    return [*trace[:index], {**trace[index], **fields}, *trace[index + 1 :]]


def other_values(field: str, value: Any) -> list[Any]:
    """Wrong values of the right type."""
    if field in WORDS:
        return [word for word in WORDS[field] if word != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, list):
        return [[*value, 1], value[:-1], [token + 50 for token in value]]
    return [value + 1, value - 1]


def test_the_traces_have_every_event_and_are_right() -> None:
    assert {event["event"] for trace in traces() for event in trace} == set(FIELDS)
    assert all(event.get("finish") != "failed" for trace in traces() for event in trace)
    assert [verdict(trace) for trace in traces()] == [None] * len(SEEDS)


# rule: rollback.exact-length, commit.one-number, commit.leading-token-uncached, draft.from-frontier, draft.clip
# rule: verify.leading-token-first, verify.first-rejection-ends, bonus.after-full-acceptance
# rule: promotion.full-acceptance-and-equal-bonus, promotion.consume-one-reuse-the-rest, lookahead.drop-whole
# rule: lookahead.planned-length, lookahead.drafted-whole, lookahead.clone-of-frontier, terminal.order
# rule: terminal.nothing-behind, terminal.budget-counts-tokens, events.one-publication-a-commit
# rule: randomness.control-ignores-redrawable, cancellation.submitted-waits
@pytest.mark.parametrize(("name", "field"), FIELD_RULES)
def test_a_wrong_field_breaks_its_rule(name: str, field: str) -> None:
    tried = 0
    for trace, index in places(name):
        for value in other_values(field, trace[index][field]):
            if field == "finish" and {value, trace[index][field]} == {"length", "context"} and name == "close":
                continue
            found = verdict(changed(trace, index, **{field: value}))
            assert found in FIELD_RULES[name, field], f"{trace[index]} with {field} = {value}: {found}"
            tried += 1
    assert tried > 0


def test_no_field_is_forgotten() -> None:
    weak = {("open", name) for name in ("prompt_length", "max_proposals", "lookahead_depth", "window")}
    every = {(name, field) for name, fields in FIELDS.items() for field in fields}
    assert every - FIELD_RULES.keys() == BLIND | weak | {("close", "statistics")}


@pytest.mark.parametrize("field", ["prompt_length", "max_proposals", "lookahead_depth", "window"])
def test_a_wrong_limit_is_noticed_where_something_depends_on_it(field: str) -> None:
    """A limit that never bound leaves no mark, so some changes of `open` are no lies."""
    found = [
        verdict(changed(trace, index, **{field: max(1, value)}))
        for trace, index in places("open")
        if trace[index][field] is not None
        for value in other_values(field, trace[index][field])
    ]
    assert sum(rule is not None for rule in found) >= 2


# rule: statistics.proposals-balance, statistics.emitted-balance, statistics.lookahead-balance
# rule: statistics.committed-rounds-only
@pytest.mark.parametrize("change", [-1, 1])
def test_every_counter_of_the_statistics_is_checked(change: int) -> None:
    for trace, index in places("close"):
        for name, count in trace[index]["statistics"].items():
            statistics = {**trace[index]["statistics"], name: count + change}
            found = verdict(changed(trace, index, statistics=statistics))
            assert found is not None
            assert found.startswith("statistics.") or (name, found) == (
                "lookahead_disabled",
                "adaptive.disable-when-unpaid",
            )


# rule: commit.order, events.after-commit, cancellation.leaves-no-trace
@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_event_is_missed(name: str) -> None:
    expected = {"open": FORM, "resolve": "commit.order", "commit": "events.after-commit"}
    for trace, index in places(name):
        found = verdict([*trace[:index], *trace[index + 1 :]])
        assert found is not None, trace[index]
        assert found == expected.get(name, found)


# rule: events.append-only, scheduling.turn-uninterrupted
@pytest.mark.parametrize("name", FIELDS)
def test_an_event_happens_once(name: str) -> None:
    expected = {
        "open": {FORM},
        "commit": {"commit.order"},
        "publish": {"events.after-commit", "events.append-only"},
        "cancel": {"events.append-only"},
        "close": {"events.append-only"},
        **{action: {"scheduling.turn-uninterrupted"} for action in ACTIONS},
        "submit": {"scheduling.turn-uninterrupted", "scheduling.ring"},  # inside a group the next member is missed
    }
    for trace, index in places(name):
        assert verdict([*trace[: index + 1], *trace[index:]]) in expected[name]


# rule: commit.order, events.after-commit
def test_events_of_a_request_in_another_order() -> None:
    expected = {("commit", "publish"): "events.after-commit", ("resolve", "commit"): "commit.order"}
    for trace in traces():
        for index in range(len(trace) - 1):
            first, second = trace[index], trace[index + 1]
            if first["request"] != second["request"]:
                continue
            found = verdict([*trace[:index], second, first, *trace[index + 2 :]])
            assert found is not None, (first, second)
            pair = first["event"], second["event"]
            assert found == expected.get(pair, found)


# rule: scheduling.ring, scheduling.requests-independent
def test_actions_of_two_requests_in_another_order() -> None:
    tried = 0
    for trace in traces():
        for index in range(len(trace) - 1):
            first, second = trace[index], trace[index + 1]
            if first["request"] == second["request"] or not {first["event"], second["event"]} <= {*ACTIONS}:
                continue
            swapped = [{**second, "turn": first["turn"]}, {**first, "turn": second["turn"]}]
            found = verdict([*trace[:index], *swapped, *trace[index + 2 :]])
            assert found in {"scheduling.ring", "commit.order", "lookahead.bounded", "scheduling.in-flight-bound"}
            tried += 1
    assert tried > 10


# rule: terminal.nothing-behind, events.append-only
def test_tokens_behind_the_finish() -> None:
    for trace, index in places("close"):
        event = trace[index]
        late = {"event": "publish", "turn": event["turn"], "request": event["request"], "tokens": [1], "finish": None}
        assert verdict([*trace[: index + 1], late, *trace[index + 1 :]]) == "events.append-only"
        if trace[index - 1]["event"] == "publish":
            assert verdict([*trace[:index], late, *trace[index:]]) == "events.append-only"
    for trace, index in places("resolve"):
        event = trace[index]
        if len(event["tokens"]) > len(event["emitted"]):
            longer = event["tokens"][: len(event["emitted"]) + 1]
            assert verdict(changed(trace, index, emitted=longer)) == "terminal.nothing-behind"


@pytest.mark.parametrize("change", [-1, 1])
def test_a_resolution_has_one_turn(change: int) -> None:
    for name in ("commit", "publish"):
        for trace, index in places(name):
            found = verdict(changed(trace, index, turn=trace[index]["turn"] + change))
            assert found == "scheduling.turn-uninterrupted"


# rule: lookahead.bounded, scheduling.in-flight-bound
@pytest.mark.parametrize(
    ("bound", "rule"), [("max_in_flight", "scheduling.in-flight-bound"), ("max_branches", "lookahead.bounded")]
)
def test_bounds_that_are_overrun(bound: str, rule: str) -> None:
    """The same run under a smaller bound: some request took a place that was not there.

    With the ring, whose turn it is would be asked first.
    """
    found = set()
    for seed in range(60):
        trace = run_random_schedule(seed).trace
        if trace[0][bound] > 1:
            tighter = [{**event, bound: 1} if event["event"] == "open" else event for event in trace]
            found.add(verdict(tighter, ring=False))
    assert rule in found
