"""The life cycle: every edge, and every pair of phases that is none."""

from __future__ import annotations

from typing import Any

import pytest

from eredu.contract.errors import PhaseError
from eredu.contract.options import GenerationOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.contract.terminal import TerminalWatch
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.phase import EDGES, SUBMITTED, TERMINAL, Phase, check_edge
from eredu.scheduling.request_state import RequestState

LIFE = {
    "prefill": {"ready-to-draft", "cancelled"},
    "ready-to-draft": {"ready-to-submit", "cancelled"},
    "ready-to-submit": {"verification-in-flight", "cancelled"},
    "verification-in-flight": {"lookahead-drafting", "resolution", "cancelled"},
    "lookahead-drafting": {"lookahead-ready", "cancelled"},
    "lookahead-ready": {"resolution", "cancelled"},
    "resolution": {"ready-to-draft", "ready-to-submit", "completed", "cancelled"},
    "completed": set(),
    "cancelled": set(),
}
"""The edges as the contract writes them."""


def record_in(phase: Phase) -> RequestState[Any, Any, Any]:
    request = GenerationRequest(7, (0,), GenerationOptions(), RequestRandomness((0, 0)))
    watch = TerminalWatch(1, 1, frozenset())
    return RequestState(request, None, watch, AdaptiveLookahead(None), 0.0, phase)


# rule: scheduling.phase-edges
@pytest.mark.parametrize("source", Phase)
@pytest.mark.parametrize("target", Phase)
def test_every_pair_of_phases_is_an_edge_or_an_error_naming_both(source: Phase, target: Phase) -> None:
    record = record_in(source)
    if target.value in LIFE[source.value]:
        assert check_edge(7, source, target) is target
        record.enter(target)
        assert record.phase is target
        return
    with pytest.raises(PhaseError, match=rf"request 7 .*'{source}'.*'{target}'") as caught:
        record.enter(target)
    assert (caught.value.request, caught.value.source, caught.value.target) == (7, source, target)
    assert record.phase is source


def test_the_sets_of_phases_agree_with_the_edges() -> None:
    assert {source.value: {target.value for target in targets} for source, targets in EDGES.items()} == LIFE
    assert {phase for phase in Phase if not EDGES[phase]} == TERMINAL
    assert all(Phase.CANCELLED in EDGES[phase] for phase in Phase if phase not in TERMINAL)
    reached = {Phase.VERIFICATION_IN_FLIGHT}
    for _ in Phase:
        reached |= {target for source in reached for target in EDGES[source] if target not in TERMINAL}
        reached -= {Phase.READY_TO_DRAFT, Phase.READY_TO_SUBMIT}
    assert reached == SUBMITTED


@pytest.mark.parametrize("phase", Phase)
def test_a_record_lives_until_a_phase_without_a_way_out(phase: Phase) -> None:
    assert record_in(phase).is_live == bool(EDGES[phase])
