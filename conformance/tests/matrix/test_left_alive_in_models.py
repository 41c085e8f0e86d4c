"""What the mutation of single operators once left alive in spec and reference, and is not equivalent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from eredu_reference.acceptance import accepts, block_length, block_threshold, block_weights
from eredu_reference.adaptive import Adaptive, observe_branch
from eredu_reference.errors import AcceptanceError
from eredu_reference.sources import FixedUniform
from eredu_spec.acceptance import Block, Judged, judged
from eredu_spec.addressing import RoundAddressing
from eredu_spec.draws import Fresh, Known, Memory
from eredu_spec.grammar import Grammar
from eredu_spec.randomness import Address, Role
from eredu_spec.terminal import EOS, GRAMMAR, STOP, Terminals

Row = tuple[Fraction, ...]
HALF, ONE = Fraction(1, 2), Fraction(1)


# rule: verify.invalid-is-error
@pytest.mark.parametrize("target", [0.0, 0.5, 1.0, 1 + 5e-10, 1 + 1e-9])
def test_a_probability_may_exceed_one_by_rounding(target: float) -> None:
    assert accepts(FixedUniform(0.0), target, 0.5) == (target > 0)


# rule: verify.invalid-is-error
@pytest.mark.parametrize("target", [-1e-9, 1 + 2e-9, 1.5, 2.0, 2 + 1e-9, float("nan")])
def test_what_is_no_probability_is_an_error(target: float) -> None:
    with pytest.raises(AcceptanceError, match="which is no probability"):
        accepts(FixedUniform(0.0), target, 0.5)


# rule: randomness.by-round, verify.block-longest-length
def test_block_verification_reads_the_coin_of_each_length_once() -> None:
    read: list[int] = []

    def coin(index: int) -> FixedUniform:
        read.append(index)
        return FixedUniform(0.0)

    rows = [np.array([0.5, 0.5])] * 4
    assert block_length((0, 1, 0), rows, rows[:3], coin) == 3
    assert sorted(read) == [0, 1, 2]


# rule: verify.block-longest-length
def test_a_threshold_of_equal_rows_and_a_whole_weight_is_zero() -> None:
    row = np.array([0.25, 0.75])
    assert block_threshold([1.0, 1.0, 1.0], 1, [row, row, row], [row, row]) == 0.0


# rule: verify.invalid-is-error
def test_block_weights_refuse_a_proposal_that_its_row_excludes() -> None:
    with pytest.raises(AcceptanceError, match="had q = 0"):
        block_weights((0,), [np.array([0.5, 0.5])] * 2, [np.array([0.0, 1.0])])


# rule: adaptive.disable-when-unpaid
@pytest.mark.parametrize(("planned", "enabled"), [(2, True), (3, True), (4, False)])
def test_one_reused_token_pays_for_one_wasted(planned: int, enabled: bool) -> None:
    assert observe_branch(Adaptive(1), planned, promoted=True, reused=1).enabled == enabled


class Noted(Fresh):
    """Fresh randomness that keeps every address that it was read at."""

    def coin(self, memory: Memory, address: Address, chance: Fraction) -> Iterator[tuple[bool, Fraction, Memory]]:
        for heads, share, known in super().coin(memory, address, chance):
            yield heads, share, (*known, Known(address, Fraction(0), ONE))

    def token(self, memory: Memory, address: Address, row: Row) -> Iterator[tuple[int, Fraction, Memory]]:
        for token, share, known in super().token(memory, address, row):
            yield token, share, (*known, Known(address, Fraction(0), ONE))


def ways(proposals: tuple[int, ...], target: Sequence[Row], draft: Sequence[Row]) -> list[Judged]:
    block = Block(
        rule="block",
        proposals=proposals,
        target=target.__getitem__,
        draft=draft.__getitem__,
        start=5,
        guess=None,
        ended=False,
        draws=Noted(),
        addresses=RoundAddressing(),
    )
    return list(judged(block, ()))


# rule: randomness.by-round, verify.block-residual
def test_a_replacement_reads_the_address_of_its_position_and_forgets_nothing() -> None:
    target, draft = (HALF, HALF), (Fraction(1, 4), Fraction(3, 4))
    found = {
        (way.accepted, way.token): [known.address for known in way.memory]
        for way in ways((1, 1), [target] * 3, [draft] * 2)
    }
    coins = [Address(Role.ACCEPT, 5, 1), Address(Role.ACCEPT, 5, 0)]
    assert found[0, 0] == [*coins, Address(Role.RESIDUAL, 5)]
    assert found[1, 0] == [*coins, Address(Role.RESIDUAL, 6)]
    assert found[2, 0] == [*coins[:1], Address(Role.TARGET, 7)]


# rule: verify.block-residual
def test_a_replacement_is_drawn_from_the_share_that_reached_it() -> None:
    """w_1 = 1/2: behind one accepted proposal (w p - q)+ is (1/4, 0, 0), and (p - q)+ would have two ids."""
    target = [(HALF, HALF, Fraction(0)), (HALF, Fraction(1, 4), Fraction(1, 4)), (ONE, Fraction(0), Fraction(0))]
    draft = [(Fraction(0), ONE, Fraction(0)), (Fraction(0), Fraction(1, 8), Fraction(7, 8))]
    tokens = {way.token for way in ways((1, 2), target, draft) if way.accepted == 1}
    assert tokens == {0}


# rule: terminal.order
def test_a_token_meets_every_condition_that_it_meets() -> None:
    grammar = Grammar({(0, 1): 1, (1, 2): 2}, frozenset({2}))
    terminals = Terminals(eos=frozenset({2}), stops=((1, 2),), grammar=grammar)
    assert terminals.conditions((1,), 2) == STOP | GRAMMAR | EOS
    assert terminals.conditions((), 1) == 0
    assert Terminals(eos=frozenset({2}), grammar=grammar).conditions((1,), 2) == GRAMMAR | EOS
    assert Terminals(stops=((1, 2),), grammar=grammar).conditions((1,), 2) == STOP | GRAMMAR
    assert Terminals(eos=frozenset({2}), stops=((2,),)).conditions((), 2) == STOP | EOS
