"""The event form of the machine: what a move looks like to an engine that writes a trace.

The vocabulary is defined in `trace.md`. Three moves are silent: a request that takes a place among the branches, the
end of a wait, and the install between commit and publication.
"""

from __future__ import annotations

from typing import Any

from eredu_spec.phases import Phase, Stage
from eredu_spec.request import Request, Resolution
from eredu_spec.sites import obeys

Event = dict[str, Any]

FIELDS: dict[str, tuple[str, ...]] = {
    "open": ("prompt_length", "budget", "max_proposals", "rule", "root", "lookahead_depth", "window"),
    "prefill": ("left",),
    "draft": ("position", "requested", "reused", "k", "clip"),
    "submit": ("position", "rows"),
    "branch": ("position", "planned", "drafted"),
    "resolve": (
        "accepted",
        "replacement",
        "tokens",
        "finish",
        "emitted",
        "branch",
        "consumed",
        "reused",
        "discarded",
    ),
    "commit": ("kept", "cache_length"),
    "publish": ("tokens", "finish"),
    "cancel": ("phase", "cache_length"),
    "close": ("finish", "statistics"),
}
"""Fields of each event besides `event`, `request` and `turn`; given facts in front of what is decided from them."""

ACTIONS = ("prefill", "draft", "submit", "branch", "resolve")
"""Events that open a turn."""


def event_of(before: Request, after: Request) -> Event | None:
    """The event of a move of one request, its tokens as masks of terminal conditions; None for a silent one."""
    if after.finish == "cancelled" and before.phase is not Phase.CANCELLED:
        return _named("cancel", before, phase=before.phase.value, cache_length=len(after.rows))
    if after.finish == "failed":
        return _named("fail", before)
    if before.phase is Phase.RESOLUTION:
        return _of_resolution(before, after)
    if before.phase is Phase.PREFILL:
        return _named("prefill", before, left=len(before.settings.prompt) - 1 - len(after.rows))
    if before.phase is Phase.READY_TO_DRAFT:
        return _named(
            "draft",
            before,
            position=len(before.output),
            requested=before.requested,
            reused=before.reused,
            k=len(after.block),
            clip=after.clip,
        )
    if before.phase is Phase.READY_TO_SUBMIT:
        return _named("submit", before, position=len(before.output), rows=len(after.rows) - len(before.rows))
    if before.phase is Phase.LOOKAHEAD_DRAFTING:
        drafted = len(after.branch)
        return _named("branch", before, position=len(before.output), planned=before.planned, drafted=drafted)
    return None


@obeys("commit.order", "events.after-commit")
def _of_resolution(before: Request, after: Request) -> Event | None:
    """The events of one resolution, in their only order: resolve, commit, publish."""
    resolution = after.resolution or before.resolution
    assert resolution is not None, "a resolution has an outcome from its first step on"
    if after.stage is Stage.RESOLVED:
        return _resolved(before, resolution)
    if after.stage is Stage.COMMITTED:
        return _named("commit", before, kept=resolution.kept, cache_length=len(after.rows))
    if after.stage is Stage.IDLE:
        return _named("publish", before, tokens=list(resolution.emitted), finish=after.finish)
    return None


def _resolved(before: Request, resolution: Resolution) -> Event:
    return _named(
        "resolve",
        before,
        accepted=resolution.accepted,
        replacement=resolution.accepted < len(before.block),
        tokens=list(resolution.candidates),
        finish=resolution.finish,
        emitted=list(resolution.emitted),
        branch=resolution.branch,
        consumed=resolution.consumed,
        reused=resolution.reused,
        discarded=resolution.discarded,
    )


def _named(name: str, request: Request, **fields: Any) -> Event:
    return {"event": name, "request": request.settings.number, **fields}
