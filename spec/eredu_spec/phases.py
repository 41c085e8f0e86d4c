"""The life cycle of a request: nine phases, the edges between them, and the stages inside a resolution."""

from __future__ import annotations

from enum import StrEnum

from eredu_spec.sites import obeys


class Phase(StrEnum):
    """Where a request stands, by its name in prose and traces."""

    PREFILL = "prefill"
    READY_TO_DRAFT = "ready-to-draft"
    READY_TO_SUBMIT = "ready-to-submit"
    VERIFICATION_IN_FLIGHT = "verification-in-flight"
    LOOKAHEAD_DRAFTING = "lookahead-drafting"
    LOOKAHEAD_READY = "lookahead-ready"
    RESOLUTION = "resolution"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Stage(StrEnum):
    """How far the resolution of a round has come; `IDLE` in every phase but the resolution."""

    IDLE = "idle"
    WAITED = "waited"
    """The device has finished the verification."""
    RESOLVED = "resolved"
    """Accepted length, emitted tokens, finish and the fate of the branch are known, on copies."""
    COMMITTED = "committed"
    """The target cache holds what stays."""
    INSTALLED = "installed"
    """The request's own state is the new one; its events are being published."""


LIVE = frozenset(Phase) - {Phase.COMPLETED, Phase.CANCELLED}
"""Phases in which a request may still act."""

SUBMITTED = frozenset({Phase.VERIFICATION_IN_FLIGHT, Phase.LOOKAHEAD_DRAFTING, Phase.LOOKAHEAD_READY, Phase.RESOLUTION})
"""Phases in which a verification of the request may still run."""

BRANCHING = frozenset({Phase.LOOKAHEAD_DRAFTING, Phase.LOOKAHEAD_READY})
"""Phases in which a request holds a place among the lookahead branches."""

DROPPABLE = frozenset({Stage.IDLE, Stage.WAITED})
"""Stages in which a request may be cancelled at once: nothing of its round has been resolved."""

UNINSTALLED = frozenset(Stage) - {Stage.INSTALLED}
"""Stages in which an error drops the round: its outcome is not the request's own yet."""

EDGES: dict[Phase, frozenset[Phase]] = {
    Phase.PREFILL: frozenset({Phase.READY_TO_DRAFT, Phase.CANCELLED}),
    Phase.READY_TO_DRAFT: frozenset({Phase.READY_TO_SUBMIT, Phase.CANCELLED}),
    Phase.READY_TO_SUBMIT: frozenset({Phase.VERIFICATION_IN_FLIGHT, Phase.CANCELLED}),
    Phase.VERIFICATION_IN_FLIGHT: frozenset({Phase.LOOKAHEAD_DRAFTING, Phase.RESOLUTION, Phase.CANCELLED}),
    Phase.LOOKAHEAD_DRAFTING: frozenset({Phase.LOOKAHEAD_READY, Phase.CANCELLED}),
    Phase.LOOKAHEAD_READY: frozenset({Phase.RESOLUTION, Phase.CANCELLED}),
    Phase.RESOLUTION: frozenset({Phase.READY_TO_DRAFT, Phase.READY_TO_SUBMIT, Phase.COMPLETED, Phase.CANCELLED}),
    Phase.COMPLETED: frozenset(),
    Phase.CANCELLED: frozenset(),
}


@obeys("scheduling.phase-edges")
def is_edge(source: Phase, target: Phase) -> bool:
    """Whether a request may pass from one phase to the other; staying is not an edge and always allowed."""
    return source == target or target in EDGES[source]
