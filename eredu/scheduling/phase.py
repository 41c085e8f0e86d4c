"""The life cycle of a request: nine phases and the edges between them."""

from __future__ import annotations

from enum import StrEnum

from eredu.contract.errors import PhaseError


class Phase(StrEnum):
    """Where a request stands between two turns of the scheduler."""

    PREFILL = "prefill"
    READY_TO_DRAFT = "ready-to-draft"
    READY_TO_SUBMIT = "ready-to-submit"
    VERIFICATION_IN_FLIGHT = "verification-in-flight"
    LOOKAHEAD_DRAFTING = "lookahead-drafting"
    LOOKAHEAD_READY = "lookahead-ready"
    RESOLUTION = "resolution"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


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

SUBMITTED = frozenset({Phase.VERIFICATION_IN_FLIGHT, Phase.LOOKAHEAD_DRAFTING, Phase.LOOKAHEAD_READY, Phase.RESOLUTION})
"""Phases in which a verification of the request may still be running."""

BRANCHING = frozenset({Phase.LOOKAHEAD_DRAFTING, Phase.LOOKAHEAD_READY})
"""Phases in which the request has a lookahead branch that takes one of the places for branches."""

TERMINAL = frozenset({Phase.COMPLETED, Phase.CANCELLED})
"""Phases that a request never leaves."""


# rule: scheduling.phase-edges
def check_edge(request: int, source: Phase, target: Phase) -> Phase:
    """Return `target` if the life cycle has the edge. Raises `PhaseError` naming both phases otherwise."""
    if target not in EDGES[source]:
        raise PhaseError(request, source, target)
    return target
