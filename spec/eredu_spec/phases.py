"""The life cycle of a request: nine phases, the edges between them, and the steps inside a resolution."""

from __future__ import annotations

from enum import IntEnum

from eredu_spec.sites import obeys


class Phase(IntEnum):
    """Where a request stands. Phases with a verification that may still run are contiguous."""

    PREFILL = 0
    READY_TO_DRAFT = 1
    READY_TO_SUBMIT = 2
    VERIFICATION_IN_FLIGHT = 3
    LOOKAHEAD_DRAFTING = 4
    LOOKAHEAD_READY = 5
    RESOLUTION = 6
    COMPLETED = 7
    CANCELLED = 8

    @property
    def label(self) -> str:
        """The name in prose and traces: `ready-to-draft`."""
        return self.name.lower().replace("_", "-")


class Stage(IntEnum):
    """How far the resolution of a round has come; `IDLE` in every other phase."""

    IDLE = 0
    WAITED = 1
    """The device has finished the verification."""
    RESOLVED = 2
    """Accepted length, emitted tokens, finish and the fate of the branch are known, on copies."""
    COMMITTED = 3
    """The target cache holds what stays."""
    INSTALLED = 4
    """The request's own state is the new one; its events are being published."""


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


def is_live(phase: Phase) -> bool:
    """Whether a request in this phase may still act."""
    return phase < Phase.COMPLETED


def is_submitted(phase: Phase) -> bool:
    """Whether a verification of a request in this phase may still run."""
    return Phase.VERIFICATION_IN_FLIGHT <= phase <= Phase.RESOLUTION


def is_branching(phase: Phase) -> bool:
    """Whether a request in this phase holds a place among the lookahead branches."""
    return Phase.LOOKAHEAD_DRAFTING <= phase <= Phase.LOOKAHEAD_READY
