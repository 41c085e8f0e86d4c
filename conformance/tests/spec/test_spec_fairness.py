"""What happens in the end: every fair schedule finishes, and the search finds schedules that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from eredu_spec import successors
from eredu_spec.drafting import ONE, Move
from eredu_spec.fairness import fair_avoidance, unfinished
from eredu_spec.phases import Phase
from eredu_spec.request import Request
from eredu_spec.scope import Scope
from eredu_spec.scopes import SCOPES
from eredu_spec.state import evolve


def quiet(name: str, *, ring: bool) -> Scope:
    """A scope whose environment leaves it alone."""
    scope = SCOPES[name]()
    return replace(scope, ring=ring, cancellations=False, callbacks=False, failures=False)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize(
    "name", ["tiny", "small", "trio", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("standard", "deep"))]
)
def test_every_fair_schedule_ends(name: str, ring: bool) -> None:
    assert unfinished(quiet(name, ring=ring)) is None


def test_a_request_that_polls_without_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(request: Request) -> Iterator[Move]:
        yield "placement.wait-before-read", ONE, evolve(request, cancelling=not request.cancelling)

    monkeypatch.setitem(successors.BY_PHASE, Phase.VERIFICATION_IN_FLIGHT, poll)
    monkeypatch.setattr("eredu_spec.successors._each", lambda *_: [])
    assert unfinished(quiet("small", ring=True)) is not None


def test_a_stall_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(successors.BY_PHASE, Phase.LOOKAHEAD_READY, lambda _: iter(()))
    stuck = unfinished(quiet("small", ring=False))
    assert stuck is not None
    assert len(stuck) == 1
    (state,) = stuck
    assert Phase.LOOKAHEAD_READY in {request.phase for request in state}


# ---- systems of two actors, so that fairness itself is tested ----------------------------------------------------


def counting(state: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Actor 0 goes round and round; actor 1 can act once, at any time, and then both are done."""
    turn, done = state
    if not done:
        yield 0, (1 - turn, 0)
        yield 1, (turn, 1)


def is_done(state: tuple[int, int]) -> bool:
    return state[1] == 1


def test_a_schedule_that_passes_an_actor_over_for_ever_is_not_fair() -> None:
    assert fair_avoidance((0, 0), counting, is_done) is None


def test_a_cycle_in_which_the_other_can_not_always_act_is_fair() -> None:
    def blocked_now_and_then(state: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int]]]:
        return (turn for turn in counting(state) if turn[0] == 0 or state[0] == 0)

    assert fair_avoidance((0, 0), blocked_now_and_then, is_done) == frozenset({(0, 0), (1, 0)})


def test_a_cycle_in_which_every_actor_acts_is_fair() -> None:
    def both(state: int) -> Iterator[tuple[int, int]]:
        yield state % 2, (state + 1) % 4

    assert fair_avoidance(0, both, lambda state: state == 9) == frozenset(range(4))


def test_a_dead_end_is_a_fair_schedule() -> None:
    assert fair_avoidance(
        0, lambda state: [(0, state + 1)] if state < 3 else [], lambda state: state == 9
    ) == frozenset({3})


def test_nothing_is_looked_for_behind_what_holds() -> None:
    assert fair_avoidance(0, lambda _: [], lambda state: state == 0) is None
