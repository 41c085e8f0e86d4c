"""Exhaustive exploration of the shipped scopes: nothing broken, nothing missing, and no vacuous silence."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from eredu_spec.draws import Kept
from eredu_spec.explorer import Exploration, explore
from eredu_spec.phases import LIVE, Phase
from eredu_spec.properties import violations
from eredu_spec.scope import Scope
from eredu_spec.scopes import SCOPES
from eredu_spec.sometimes import sometimes_of_groups, sometimes_of_steps, unseen
from eredu_spec.successors import successors
from eredu_spec.terminal import Terminals

SIZES = {
    "tiny": (6464, 11442),
    "small": (35487, 78527),
    "standard": (391567, 850616),
    "trio": (46718, 110096),
    "deep": (25992, 53834),
}


@cache
def explored(name: str) -> Exploration:
    return explore(SCOPES[name]())


@pytest.mark.parametrize("name", SCOPES)
def test_no_reachable_state_breaks_a_rule_and_what_should_happen_somewhere_does(name: str) -> None:
    """In one test, for a scope is explored in seconds: its sizes are those that the README gives, too."""
    assert [str(violation) for violation in violations(explored(name))] == []
    assert unseen(explored(name)) == []
    assert (len(explored(name).tree), explored(name).edge_count) == SIZES[name]


def test_the_standard_scope_is_large_enough_to_mean_something() -> None:
    scope = SCOPES["standard"]()
    wanted = sometimes_of_steps(scope).keys() | sometimes_of_groups(scope).keys()
    assert len(scope.requests) == 2
    for settings in scope.requests:
        assert settings.requested >= 2
        assert settings.lookahead_depth is not None
        assert settings.lookahead_depth >= 2
        assert settings.max_tokens >= 2 * settings.requested + 1
    assert {f"cancelled in {phase}" for phase in LIVE} <= wanted
    assert {"accepted 0 of 2", "accepted 2 of 2", "bonus hit", "bonus miss", "lookahead disabled"} <= wanted


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled", "greedy"])
@pytest.mark.parametrize("seed", range(2))
def test_tables_keep_the_same_properties_as_free_choices(exact, rule: str, seed: int) -> None:  # type: ignore[no-untyped-def]
    settings = exact(rule, seed=seed, window=1, counts=True, draws=Kept(), terminals=Terminals(eos=frozenset({2})))
    scope = Scope(requests=(settings,), cancellations=True, callbacks=True, failures=True)
    assert [str(violation) for violation in violations(explore(scope))] == []


def test_two_requests_over_tables_share_nothing_but_the_bounds(exact) -> None:  # type: ignore[no-untyped-def]
    alone = [exact("rejection", vocabulary=2, order=1, max_tokens=3, requested=1, number=i, seed=i) for i in range(2)]
    both = explore(Scope(requests=tuple(alone), max_in_flight=1))
    for index, settings in enumerate(alone):
        seen = {state[index] for state in both.tree}
        assert seen == explore(Scope(requests=(settings,))).requests()


def test_the_ring_is_one_of_the_interleavings() -> None:
    scope = replace(SCOPES["small"](), cancellations=False, callbacks=False, failures=False)
    free = explore(scope)
    ringed = explore(replace(scope, ring=True))
    in_order = {tuple(sorted(state, key=lambda request: request.settings.number)) for state in ringed.tree}
    assert in_order < set(free.tree)


def test_a_trace_is_a_way_through_the_machine() -> None:
    exploration = explored("tiny")
    trace = exploration.trace_to(lambda state: state[0].phase == Phase.COMPLETED and len(state[0].output) == 5)
    assert trace.states[0] == exploration.scope.start()
    for before, rule, after in zip(trace.states, trace.rules, trace.states[1:], strict=False):
        assert (rule, after) in [(name, state) for name, _, state in successors(before, exploration.scope)]


def test_a_scope_without_end_is_given_up() -> None:
    with pytest.raises(OverflowError, match="more than 1000 states"):
        explore(SCOPES["small"](), states_max=1000)
