"""The exact law of the machine is that of plain decoding: differences of exactly 0, in fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from eredu_spec.grammar import Grammar
from eredu_spec.law import Law, LawError, plain_law, propagated, speculative_law, total_variation
from eredu_spec.processing import Processing
from eredu_spec.request import Settings
from eredu_spec.scope import Scope
from eredu_spec.state import State
from eredu_spec.successors import Edge, successors
from eredu_spec.tables import HiddenRow
from eredu_spec.terminal import Terminals

MakeSettings = Callable[..., Settings]

STOCHASTIC = ("rejection", "block", "coupled")
LOOKAHEAD: dict[str, dict[str, int | None]] = {
    "off": {"lookahead_depth": None},
    "on": {"lookahead_depth": 3},
    "adaptive": {"window": 1},
}

PROCESSINGS = {
    "top-k with ties": Processing(top_k=2),
    "top-p": Processing(top_p=Fraction(7, 10)),
    "min-p and temperature 1/2": Processing(min_p=Fraction(1, 4), power=2),
    "bias": Processing(bias={0: Fraction(1, 3), 2: Fraction(3, 4)}),
    "penalties of the history": Processing(presence=Fraction(1, 2), frequency=Fraction(2, 3)),
    "repetition, last two": Processing(repetition=2, repeat_last_n=2),
}

ALTERNATING = Grammar(
    # a (b a)* c with a = 0, b = 1, c = 2; any of the ids may also be first, so that proposals meet the mask early
    edges={(0, 0): 1, (0, 1): 2, (1, 1): 2, (1, 2): 3, (2, 0): 1, (2, 2): 3},
    complete=frozenset({3}),
)


def difference(settings: Settings) -> Fraction:
    law = speculative_law(settings)
    assert sum(law.values()) == 1
    return total_variation(law, plain_law(settings))


def states(settings: Settings) -> int:
    return propagated(Scope(requests=(settings,), ring=True))[1]


def scaled(factor: Fraction) -> Callable[[State, Scope], list[Edge]]:
    """The machine with every weight multiplied."""
    return lambda state, scope: [(rule, factor * weight, after) for rule, weight, after in successors(state, scope)]


# rule: verify.same-law
@pytest.mark.parametrize("lookahead", LOOKAHEAD)
@pytest.mark.parametrize("rule", STOCHASTIC)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 10))])
def test_speculation_has_the_law_of_plain_decoding(exact: MakeSettings, rule: str, seed: int, lookahead: str) -> None:
    assert difference(exact(rule, seed=seed, max_tokens=6, **LOOKAHEAD[lookahead])) == 0


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_k_of_three_and_a_branch_longer_than_the_next_block(exact: MakeSettings, rule: str) -> None:
    assert difference(exact(rule, vocabulary=2, max_tokens=8, requested=3, lookahead_depth=4)) == 0


# rule: randomness.greedy-reads-none
@pytest.mark.parametrize("lookahead", LOOKAHEAD)
@pytest.mark.parametrize("seed", range(4))
def test_greedy_decoding_is_one_path(exact: MakeSettings, seed: int, lookahead: str) -> None:
    law = speculative_law(settings := exact("greedy", seed=seed, max_tokens=9, **LOOKAHEAD[lookahead]))
    assert law == plain_law(settings)
    assert len(law) == 1


@pytest.mark.parametrize("name", PROCESSINGS)
@pytest.mark.parametrize("rule", STOCHASTIC)
def test_processors_see_the_history_of_their_own_row(exact: MakeSettings, rule: str, name: str) -> None:
    processing = PROCESSINGS[name]
    # The rows must keep an id under every filter, so the world has no rows that a filter could empty.
    settings = exact(rule, kinds=("positive", "equal"), seed=4, processing=processing)
    assert difference(settings) == 0
    plain = plain_law(exact(rule, kinds=("positive", "equal"), seed=4))
    assert total_variation(plain, plain_law(settings)) > 0, "the processor must change something to be tested"


@pytest.mark.parametrize("lookahead", LOOKAHEAD)
@pytest.mark.parametrize("rule", STOCHASTIC)
def test_a_grammar_may_end_anywhere_in_a_block_or_a_branch(exact: MakeSettings, rule: str, lookahead: str) -> None:
    settings = exact(
        rule,
        kinds=("positive",),
        processing=Processing(grammar=ALTERNATING),
        terminals=Terminals(grammar=ALTERNATING),
        max_tokens=6,
        **LOOKAHEAD[lookahead],
    )
    law = speculative_law(settings)
    assert total_variation(law, plain_law(settings)) == 0
    assert {finish for _, finish in law} == {"grammar", "length"}


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_stop_sequences_and_eos_inside_a_block(exact: MakeSettings, rule: str) -> None:
    terminals = Terminals(eos=frozenset({2}), stops=((0, 1, 0), (1, 1)))
    settings = exact(rule, kinds=("positive",), terminals=terminals, max_tokens=6)
    law = speculative_law(settings)
    assert total_variation(law, plain_law(settings)) == 0
    assert {finish for _, finish in law} == {"stop", "eos", "length"}


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_contexts_and_the_checkpoint_clip_without_changing_the_law(exact: MakeSettings, rule: str) -> None:
    settings = exact(rule, max_tokens=9, requested=3, capability=2, target_context=7, drafter_context=5)
    law = speculative_law(settings)
    assert total_variation(law, plain_law(settings)) == 0
    assert {(len(output), finish) for output, finish in law} == {(6, "context")}


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_a_drafter_that_reads_hidden_states_keeps_the_law(
    exact: MakeSettings, rule: str, hidden_state: HiddenRow
) -> None:
    on, off = (
        exact(rule, vocabulary=2, order=1, hidden=hidden_state, max_tokens=6, lookahead_depth=depth)
        for depth in (3, None)
    )
    assert difference(on) == difference(off) == 0
    assert states(on) > states(off), "branches must have been drafted to be tested"


def test_a_weight_outside_its_range_is_refused(exact: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eredu_spec.law.successors", scaled(Fraction(2)))
    with pytest.raises(LawError, match="outside"):
        speculative_law(exact("rejection"))


def test_weights_that_do_not_sum_to_one_are_refused(exact: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eredu_spec.law.successors", scaled(Fraction(1, 2)))
    with pytest.raises(LawError, match="sum to"):
        speculative_law(exact("rejection"))


def test_total_variation_is_half_the_absolute_difference() -> None:
    left: Law = {((0,), "eos"): Fraction(1, 4), ((1,), "eos"): Fraction(3, 4)}
    right: Law = {((1,), "eos"): Fraction(1, 2), ((2,), "eos"): Fraction(1, 2)}
    assert total_variation(left, right) == Fraction(1, 2)
