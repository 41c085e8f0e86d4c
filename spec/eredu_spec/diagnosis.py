"""Which rule an event breaks, read off the field that no step agrees with or the phase it does not belong to."""

from __future__ import annotations

from typing import Any

from eredu_spec.events import Event
from eredu_spec.lookahead import planned_length
from eredu_spec.phases import LIVE, Phase
from eredu_spec.request import Request

FIELD_RULES = {
    ("prefill", "left"): "commit.leading-token-uncached",
    ("draft", "position"): "draft.from-frontier",
    ("draft", "requested"): "randomness.control-ignores-redrawable",
    ("draft", "reused"): "promotion.consume-one-reuse-the-rest",
    ("draft", "k"): "draft.clip",
    ("draft", "clip"): "draft.clip",
    ("submit", "position"): "draft.from-frontier",
    ("submit", "rows"): "verify.leading-token-first",
    ("branch", "position"): "lookahead.clone-of-frontier",
    ("branch", "planned"): "lookahead.planned-length",
    ("branch", "drafted"): "lookahead.drafted-whole",
    ("resolve", "accepted"): "verify.first-rejection-ends",
    ("resolve", "replacement"): "verify.first-rejection-ends",
    ("resolve", "tokens"): "bonus.after-full-acceptance",
    ("resolve", "finish"): "terminal.order",
    ("resolve", "emitted"): "terminal.nothing-behind",
    ("resolve", "branch"): "promotion.full-acceptance-and-equal-bonus",
    ("resolve", "consumed"): "promotion.consume-one-reuse-the-rest",
    ("resolve", "reused"): "promotion.consume-one-reuse-the-rest",
    ("resolve", "discarded"): "statistics.lookahead-balance",
    ("commit", "kept"): "commit.one-number",
    ("commit", "cache_length"): "rollback.exact-length",
    ("publish", "tokens"): "events.one-publication-a-commit",
    ("publish", "finish"): "events.append-only",
    ("cancel", "phase"): "scheduling.phase-edges",
    ("cancel", "cache_length"): "cancellation.submitted-waits",
}

COUNTER_RULES = {
    "emitted": "statistics.emitted-balance",
    "target_tokens": "statistics.emitted-balance",
    "target_rows": "statistics.emitted-balance",
    "rounds": "statistics.committed-rounds-only",
    "drafted": "statistics.proposals-balance",
    "accepted": "statistics.proposals-balance",
    "rejected": "statistics.proposals-balance",
    "unexamined": "statistics.proposals-balance",
    "lookahead_disabled": "adaptive.disable-when-unpaid",
}


def broken_rule(event: Event, field: str, expected: list[Any]) -> str:
    """The rule behind a field that has none of the expected values."""
    name = event["event"]
    if name == "close":
        return COUNTER_RULES.get(field, "statistics.lookahead-balance")
    if name == "draft" and field == "k" and event["reused"]:
        return "promotion.top-up"
    if name == "resolve" and field == "branch" and event["branch"] != "promoted":
        return "lookahead.drop-whole" if event["branch"] == "none" else "lookahead.while-in-flight"
    if field == "finish" and {"length", "context"} & {event["finish"], *expected}:
        return "terminal.budget-counts-tokens"
    return FIELD_RULES[name, field]


def misplaced_rule(event: Event, request: Request) -> str:
    """The rule behind an event that no step of the request can be now."""
    name, phase = event["event"], request.phase
    if phase not in LIVE:
        return "events.append-only"
    if name == "publish":
        return "events.after-commit"
    if name == "commit":
        return "commit.order"
    if name == "submit" and phase == Phase.READY_TO_SUBMIT:
        return "scheduling.in-flight-bound"
    if name == "branch":
        return _misplaced_branch(request)
    return "scheduling.phase-edges"


def _misplaced_branch(request: Request) -> str:
    if request.phase != Phase.VERIFICATION_IN_FLIGHT:
        return "lookahead.while-in-flight"
    if not request.adaptive.enabled:
        return "adaptive.disable-when-unpaid"
    if not planned_length(request):
        return "lookahead.planned-length"
    return "lookahead.bounded"
