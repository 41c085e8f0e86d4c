"""What addressing may do: the exact law when an address keeps its number until nothing can read it any more.

Each lossy variant is a class of this file, and its exact total variation is the figure that the rules quote.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from eredu_spec.adaptive import AdaptiveControl
from eredu_spec.addressing import Addressing, RoundAddressing
from eredu_spec.draws import Fresh, Kept
from eredu_spec.grammar import Grammar
from eredu_spec.law import plain_law, speculative_law, total_variation
from eredu_spec.processing import Processing
from eredu_spec.randomness import Address, Role
from eredu_spec.request import Adaptive, Request, Resolution, Settings
from eredu_spec.rules import rules
from eredu_spec.tables import HiddenRow
from eredu_spec.terminal import Terminals

MakeSettings = Callable[..., Settings]
STOCHASTIC = ("rejection", "block", "coupled")
ROUGH = ("positive", "zeros")


class BlockByPosition(Addressing):
    """Block verification whose proposals and coins are addressed by position."""


class ProposalsByPosition(RoundAddressing):
    """Only its proposals."""

    def proposal(self, start: int, index: int) -> Address:
        return Address(Role.DRAFT, start + index)


class CoinsByPosition(RoundAddressing):
    """Only its coins."""

    def coin(self, start: int, index: int) -> Address:
        return Address(Role.ACCEPT, start + index)


class OneCoinABlock(Addressing):
    """One uniform number for every acceptance of a block."""

    def coin(self, start: int, index: int) -> Address:
        return Address(Role.ACCEPT, start)


class ReplacementFromProposal(Addressing):
    """The replacement read from the address of the proposal it replaces."""

    def residual(self, position: int) -> Address:
        return Address(Role.DRAFT, position)


class ReplacementFromCoin(Addressing):
    """The replacement read from the address of the coin that rejected."""

    def residual(self, position: int) -> Address:
        return Address(Role.ACCEPT, position)


class DepthByUnexamined(AdaptiveControl):
    """No proposals in the next round if the first unexamined one of this round was id 0."""

    def requested(self, request: Request, resolution: Resolution) -> int:
        unexamined = request.block[resolution.accepted + 1 :]
        return 0 if unexamined[:1] == (0,) else request.settings.requested


class DepthByAccepted(AdaptiveControl):
    """One proposal behind a round that accepted none."""

    def requested(self, request: Request, resolution: Resolution) -> int:
        return request.settings.requested if resolution.accepted else 1


class LookaheadByDiscarded(AdaptiveControl):
    """Lookahead stays on only while the last token of a dropped branch is id 0."""

    def lookahead(self, request: Request, resolution: Resolution) -> Adaptive:
        is_informative = resolution.branch == "dropped" and len(request.branch) > 2
        return Adaptive(enabled=request.branch[2] == 0) if is_informative else request.adaptive


def difference(settings: Settings) -> Fraction:
    return total_variation(speculative_law(settings), plain_law(settings))


# rule: randomness.by-position, randomness.by-round, randomness.shared-noise, verify.same-law
@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rule", STOCHASTIC)
def test_the_addresses_of_each_rule_are_lossless(exact: MakeSettings, rule: str, seed: int, window: int | None) -> None:
    kept = exact(rule, vocabulary=2, order=1, kinds=ROUGH, seed=seed, draws=Kept(), max_tokens=6, window=window)
    assert difference(kept) == 0


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_they_are_in_three_ids_and_contexts_of_two(exact: MakeSettings, rule: str) -> None:
    assert difference(exact(rule, draws=Kept())) == 0


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_they_are_where_a_grammar_cuts_blocks_and_branches(
    exact: MakeSettings, rule: str, hidden_state: HiddenRow
) -> None:
    grammar = Grammar(edges={(s, t): s + t for s in range(3) for t in range(3)}, complete=frozenset({3, 4}))
    settings = exact(
        rule,
        order=1,
        kinds=("positive",),
        draws=Kept(),
        hidden=hidden_state,
        window=1,
        processing=Processing(grammar=grammar),
        terminals=Terminals(grammar=grammar),
    )
    assert difference(settings) == 0


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_they_are_for_a_drafter_that_reads_hidden_states(
    exact: MakeSettings, rule: str, hidden_state: HiddenRow
) -> None:
    settings = exact(
        rule, vocabulary=2, order=1, kinds=("positive",), draws=Kept(), hidden=hidden_state, max_tokens=7, window=1
    )
    assert difference(settings) == 0


# rule: randomness.address-once, randomness.roles-disjoint
@pytest.mark.parametrize(
    ("rule", "addressing", "world", "expected"),
    [
        ("block", BlockByPosition(), {"kinds": ROUGH}, Fraction(70904135473, 4015625714100)),
        ("block", ProposalsByPosition(), {"kinds": ("positive",)}, Fraction(188822779479031, 6171640695000000)),
        ("block", CoinsByPosition(), {"kinds": ("positive",)}, Fraction(374556298933, 25686330120000)),
        ("rejection", OneCoinABlock(), {"kinds": ("positive",), "vocabulary": 2}, Fraction(31, 980)),
        ("rejection", ReplacementFromProposal(), {"kinds": ("positive",), "max_tokens": 4}, Fraction(37, 1320)),
        ("rejection", ReplacementFromCoin(), {"kinds": ("positive",), "max_tokens": 4}, Fraction(37, 2640)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Addressing) else None,
)
def test_an_address_that_is_read_twice_is_lossy(
    exact: MakeSettings, rule: str, addressing: Addressing, world: dict[str, object], expected: Fraction
) -> None:
    options: dict[str, object] = {"order": 1, "lookahead_depth": None, "addressing": addressing} | world
    assert difference(exact(rule, draws=Kept(), **options)) == expected
    assert difference(exact(rule, draws=Fresh(), **options)) == 0, "only the addresses are wrong"


def test_rejection_may_be_addressed_by_round_too(exact: MakeSettings) -> None:
    settings = exact(
        "rejection", vocabulary=2, order=1, kinds=ROUGH, draws=Kept(), addressing=RoundAddressing(), max_tokens=6
    )
    assert difference(settings) == 0


# rule: randomness.control-ignores-redrawable
@pytest.mark.parametrize(
    ("rule", "expected"), [("rejection", Fraction(32, 343)), ("block", Fraction(0)), ("coupled", Fraction(0))]
)
def test_k_chosen_by_an_unexamined_proposal(exact: MakeSettings, rule: str, expected: Fraction) -> None:
    options: dict[str, object] = {
        "vocabulary": 2,
        "order": 1,
        "kinds": ROUGH,
        "max_tokens": 6,
        "lookahead_depth": None,
    }
    assert difference(exact(rule, draws=Kept(), control=DepthByUnexamined(), **options)) == expected
    assert difference(exact(rule, draws=Kept(), control=DepthByAccepted(), **options)) == 0


# rule: adaptive.planned-not-drawn, randomness.control-ignores-redrawable
@pytest.mark.parametrize(
    ("rule", "reads_hidden", "expected"),
    [
        ("rejection", True, Fraction(794269, 364500000)),
        ("rejection", False, Fraction(0)),
        ("block", True, Fraction(0)),
        ("coupled", True, Fraction(0)),
    ],
)
def test_lookahead_switched_by_a_discarded_branch_token(
    exact: MakeSettings, hidden_state: HiddenRow, rule: str, reads_hidden: bool, expected: Fraction
) -> None:
    settings = exact(
        rule,
        vocabulary=2,
        order=1,
        kinds=("positive",),
        draws=Kept(),
        control=LookaheadByDiscarded(),
        max_tokens=7,
        hidden=hidden_state if reads_hidden else None,
    )
    assert difference(settings) == expected


@pytest.mark.parametrize(
    ("rule", "figure"),
    [
        ("randomness.by-round", "70904135473/4015625714100"),
        ("randomness.roles-disjoint", "37/1320"),
        ("randomness.control-ignores-redrawable", "32/343"),
        ("adaptive.planned-not-drawn", "794269/364500000"),
    ],
)
def test_the_rules_quote_the_figures_of_this_file(rule: str, figure: str) -> None:
    assert figure in rules()[rule].why
