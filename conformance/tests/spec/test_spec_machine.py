"""The function itself: pure, exact, and the same whatever it remembers; and its smallest parts by table."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from eredu_spec.addressing import addressing_of
from eredu_spec.clipping import clip
from eredu_spec.draws import Kept
from eredu_spec.grammar import Grammar
from eredu_spec.phases import EDGES, LIVE, Phase
from eredu_spec.randomness import Address, Role
from eredu_spec.request import Settings
from eredu_spec.scope import Scope
from eredu_spec.scopes import small, standard
from eredu_spec.state import evolve, opened
from eredu_spec.structure import Structure
from eredu_spec.successors import successors
from eredu_spec.terminal import EOS, GRAMMAR, STOP, Terminals, finish_of, walk

MakeSettings = Callable[..., Settings]
MODEL = Structure()


def test_equal_requests_are_one_object() -> None:
    settings = Settings(model=MODEL, max_tokens=3, requested=1)
    assert opened(settings) is opened(settings)
    assert evolve(opened(settings), published=1) is not opened(settings)
    assert evolve(evolve(opened(settings), published=1), published=0) is opened(settings)


@pytest.mark.parametrize("make", [small, standard])
def test_successors_are_a_function_of_the_state(make: Callable[[], Scope]) -> None:
    scope = make()
    state = scope.start()
    for _ in range(60):
        first = successors(state, scope)
        assert successors(state, scope) == first
        fresh = Scope(
            requests=scope.requests,
            max_in_flight=scope.max_in_flight,
            max_branches=scope.max_branches,
            cancellations=True,
            callbacks=True,
            failures=True,
        )
        assert successors(state, fresh) == first, "what a scope remembers must not matter"
        going_on = [after for rule, _, after in first if not rule.startswith(("cancellation", "commit.failure"))]
        if not going_on:
            break
        state = going_on[-1]


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled", "greedy"])
def test_the_weights_of_a_state_are_probabilities(exact: MakeSettings, rule: str) -> None:
    scope = Scope(requests=(exact(rule, draws=Kept()),))
    todo = [scope.start()]
    for _ in range(400):
        edges = successors(todo.pop(0), scope) if todo else []
        assert not edges or sum(weight for _, weight, _ in edges) == 1
        todo += [after for _, _, after in edges]


@pytest.mark.parametrize(
    ("limits", "emitted", "expected"),
    [
        ({}, 0, (4, "request")),
        ({"capability": 4}, 0, (4, "request")),  # the first in the order names a tie
        ({"capability": 3}, 0, (3, "capability")),
        ({"capability": 0}, 0, (0, "capability")),
        ({}, 7, (2, "budget")),
        ({}, 9, (0, "budget")),
        ({"target_context": 14}, 8, (1, "budget")),  # and so does the caller's choice before the model's limit
        ({"target_context": 13}, 7, (1, "target-context")),
        ({"target_context": 11}, 6, (0, "target-context")),
        ({"drafter_context": 8}, 3, (1, "drafter-context")),
        ({"drafter_context": 5}, 6, (0, "drafter-context")),
        ({"needs_hidden": True}, 0, (4, "request")),
        ({"needs_hidden": True, "prompt": (0,)}, 0, (0, "hidden-state")),
        ({"needs_hidden": True, "prompt": (0,)}, 1, (4, "request")),
        ({"needs_hidden": True, "prompt": (0,), "capability": 0}, 0, (0, "capability")),
    ],
)
def test_clipping(limits: dict[str, Any], emitted: int, expected: tuple[int, str]) -> None:
    settings = Settings(**{"model": MODEL, "prompt": (0,) * 5, "max_tokens": 10, "requested": 4, **limits})
    assert clip(settings, 4, emitted) == expected


def test_a_context_below_the_budget_clips_no_earlier_than_it_ends_the_output() -> None:
    for context in range(5, 18):
        settings = Settings(model=MODEL, prompt=(0,) * 5, max_tokens=10, requested=4, target_context=context)
        for emitted in range(settings.budget):
            depth, reason = clip(settings, 4, emitted)
            assert 5 + emitted + depth <= context, "the target takes the committed tokens but one, and k + 1 rows"
            assert depth == min(4, settings.budget - emitted - 1)
            assert (reason == "target-context") <= (settings.budget_reason == "context")


def test_the_order_of_finishes() -> None:
    assert finish_of(STOP | GRAMMAR | EOS, 3, 3, "length") == "stop"
    assert finish_of(GRAMMAR | EOS, 3, 3, "length") == "grammar"
    assert finish_of(EOS, 3, 3, "length") == "eos"
    assert finish_of(0, 3, 3, "context") == "context"
    assert finish_of(0, 2, 3, "context") is None


def test_a_stop_sequence_spans_rounds_and_spares_the_prompt() -> None:
    terminals = Terminals(stops=((1, 2, 3),), eos=frozenset({7}))
    assert walk((0, 1), (2, 3, 4), terminals.conditions, 9, "length") == ((2, 3), "stop")
    assert walk((), (2, 3, 4), terminals.conditions, 9, "length") == ((2, 3, 4), None)
    assert walk((1, 2), (7, 3), terminals.conditions, 9, "length") == ((7,), "eos")
    assert walk((1, 2), (4, 3), terminals.conditions, 3, "length") == ((4,), "length")


def test_a_grammar_is_a_function_of_the_output() -> None:
    grammar = Grammar(edges={(0, 0): 0, (0, 1): 1}, complete=frozenset({1}))
    assert grammar.is_complete((0, 0, 1))
    assert not grammar.is_complete((0, 0, 1, 0))
    assert grammar.is_legal((0,), 1)
    assert not grammar.is_legal((0, 1), 0)
    assert not grammar.is_legal((2,), 0)


def test_addresses_of_each_rule() -> None:
    rejection, block, coupled = (addressing_of(rule) for rule in ("rejection", "block", "coupled"))
    assert rejection.proposal(5, 2) == rejection.proposal(7, 0) == Address(Role.DRAFT, 7)
    assert block.proposal(5, 2) == Address(Role.DRAFT, 5, 2) != block.proposal(7, 0)
    assert block.coin(5, 0) == Address(Role.ACCEPT, 5, 0)
    assert block.residual(7) == rejection.residual(7) == Address(Role.RESIDUAL, 7)
    assert block.target(7) == rejection.target(7) == Address(Role.TARGET, 7)
    assert {coupled.proposal(5, 2), coupled.residual(7), coupled.target(7)} == {Address(Role.NOISE, 7)}


def test_a_kept_number_is_narrowed_by_each_reading() -> None:
    kept, address = Kept(), Address(Role.ACCEPT, 0)
    (below, share, memory), *_ = kept.coin((), address, Fraction(1, 2))
    assert (below, share) == (True, Fraction(1, 2))
    assert [(heads, chance) for heads, chance, _ in kept.coin(memory, address, Fraction(1, 4))] == [
        (True, Fraction(1, 2)),
        (False, Fraction(1, 2)),
    ]
    assert [heads for heads, _, _ in kept.coin(memory, address, Fraction(3, 4))] == [True]
    assert len(list(kept.coin(memory, Address(Role.ACCEPT, 1), Fraction(1, 4)))) == 2, "another address is fresh"


def test_the_life_cycle_has_the_edges_of_the_rule() -> None:
    assert sum(len(targets - {Phase.CANCELLED}) for targets in EDGES.values()) == 10
    assert all(Phase.CANCELLED in targets for source, targets in EDGES.items() if source in LIVE)
    assert EDGES[Phase.COMPLETED] == EDGES[Phase.CANCELLED] == frozenset()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rule": "lucky"}, "expected one of rejection"),
        ({"prompt": ()}, "at least one, which leads"),
        ({"target_context": 1}, "the target takes 1"),
        ({"max_tokens": 0}, "expected at least 1"),
        ({"requested": -1}, "expected at least 1"),
        ({"capability": -1}, "a cap of at least 0"),
        ({"lookahead_depth": 0}, "at least 1, the guess"),
        ({"window": 0}, "at least 1 resolved branch"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Settings(**({"model": MODEL, "max_tokens": 3, "requested": 1} | changes))  # type: ignore[arg-type]


def test_a_scope_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least 1 of each"):
        Scope(requests=(), max_in_flight=0)
