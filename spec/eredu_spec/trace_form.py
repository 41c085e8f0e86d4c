"""The form of a trace: JSON lines, and what each field may hold. What is wrong here is the writer, not the engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from eredu_spec.events import FIELDS, Event

NUMBER, NAME, FLAG, IDS = "a whole number", "a name", "true or false", "a list of ids"
SEQUENCES, COUNTERS = "a list of lists of ids", "an object of counters"

KINDS = {
    **dict.fromkeys(("rule", "clip", "branch", "phase", "finish"), NAME),
    **dict.fromkeys(("replacement", "exact_promotion", "needs_hidden"), FLAG),
    **dict.fromkeys(("tokens", "emitted", "root", "eos_ids"), IDS),
    "stop_sequences": SEQUENCES,
    "statistics": COUNTERS,
}
"""What the fields hold that do not hold a whole number."""

NULLABLE = frozenset({"lookahead_depth", "window", "finish"})
"""Fields of every event that may be null."""

OPTIONAL = (
    "capability",
    "target_context",
    "drafter_context",
    "max_tokens",
    "exact_promotion",
    "needs_hidden",
    "prefill_chunk",
    "max_in_flight",
    "max_branches",
    "max_group",
    "eos_ids",
    "stop_sequences",
)
"""Fields of `open` that may be absent or null."""


class TraceFormError(ValueError):
    """An event that `trace.md` does not describe: the writer of the trace is wrong, whatever the engine does."""


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Events of a JSON-lines trace; empty lines are skipped. Raises `TraceFormError` naming the line that is none."""
    for _, event in read_numbered(lines):
        yield event


def read_numbered(lines: Iterable[str]) -> Iterator[tuple[int, Event]]:
    """Number of the line, from 1, and the event on it. Raises as `read` does."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TraceFormError(f"line {number} is {line.strip()[:40]!r}, which is no JSON: {error}") from error
        if not isinstance(event, dict):
            raise TraceFormError(f"line {number} is {line.strip()[:40]!r}; expected a JSON object")
        yield number, event


def check_form(event: Event) -> None:
    """Raise `TraceFormError` if the event lacks a field, or one holds what it cannot."""
    name = event.get("event")
    if not isinstance(name, str) or name not in FIELDS:
        raise TraceFormError(f"event was {name!r}; expected one of {', '.join(FIELDS)}")
    missing = [field for field in ("request", "turn", *FIELDS[name]) if field not in event]
    if missing:
        raise TraceFormError(f"'{name}' has no {', '.join(missing)}; trace.md shows one of each event")
    given = [field for field in OPTIONAL if name == "open" and event.get(field) is not None]
    for field in ("request", "turn", *FIELDS[name], *given):
        kind = KINDS.get(field, NUMBER)
        if not (_holds(event[field], kind) or (event[field] is None and field in NULLABLE)):
            raise TraceFormError(f"'{name}' says {field} = {event[field]!r}; expected {kind}")


def _holds(value: object, kind: str) -> bool:
    match kind:
        case "a name":
            return isinstance(value, str)
        case "true or false":
            return isinstance(value, bool)
        case "an object of counters":
            return isinstance(value, dict)
        case "a list of ids":
            return isinstance(value, list) and all(_holds(item, NUMBER) for item in value)
        case "a list of lists of ids":
            return isinstance(value, list) and all(_holds(item, IDS) for item in value)
    return isinstance(value, int) and not isinstance(value, bool)
