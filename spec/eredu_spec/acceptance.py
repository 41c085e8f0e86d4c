"""The acceptance rules over exact rows: how a block of proposals is judged, and which token the target supplies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from eredu_spec.addressing import Addressing
from eredu_spec.draws import Draws, Memory
from eredu_spec.processing import InvalidRowError, excess, residual
from eredu_spec.sites import obeys

Row = tuple[Fraction, ...]
ONE = Fraction(1)


class Judged(NamedTuple):
    """One way in which a block is judged; `token` is None only where the grammar is complete behind the block."""

    accepted: int
    token: int | None
    weight: Fraction
    memory: Memory


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Block:
    """A block of k proposals before its judgement.

    Attributes:
        rule: The acceptance rule.
        proposals: Proposals x_1 … x_k.
        target: Processed target row behind the first i proposals, i = 0 … k.
        draft: Processed drafter row there; row i is the one that proposal i + 1 was drawn from.
        start: Output position of the first proposal.
        guess: The branch's guess at the bonus, drawn from drafter row k; None without a branch.
        ended: Whether the grammar is complete behind the last proposal, so that there is no bonus.
        draws: How randomness falls.
        addresses: Which address a draw has.
    """

    rule: str
    proposals: tuple[int, ...]
    target: Callable[[int], Row]
    draft: Callable[[int], Row]
    start: int
    guess: int | None
    ended: bool
    draws: Draws
    addresses: Addressing

    def ratio(self, index: int) -> Fraction:
        """p(x) / q(x) of proposal `index`. Raises `InvalidRowError` if the drafter cannot have drawn it."""
        token, target, draft = self.proposals[index], self.target(index), self.draft(index)
        if draft[token] <= 0:
            raise InvalidRowError(f"proposal {token} has probability {draft[token]} in the row it was drawn from")
        return target[token] / draft[token]


def judged(block: Block, memory: Memory) -> Iterator[Judged]:
    """The ways in which the block's own rule judges it."""
    return RULES[block.rule](block, memory)


@obeys("verify.rejection-below-ratio", "verify.residual-positive-part")
def rejection(block: Block, memory: Memory) -> Iterator[Judged]:
    """Accept x iff u * q(x) < p(x), one by one (Leviathan et al. 2023, arXiv 2211.17192)."""
    weight = ONE
    for index in range(len(block.proposals)):
        chance = min(ONE, block.ratio(index))
        address = block.addresses.coin(block.start, index)
        falls = {heads: (share, known) for heads, share, known in block.draws.coin(memory, address, chance)}
        if False in falls:
            share, known = falls[False]
            row = residual(block.target(index), block.draft(index))
            yield from _replaced(block, index, row, weight * share, known)
        if True not in falls:
            return
        share, memory = falls[True]
        weight *= share
    yield from _bonus(block, weight, memory)


@obeys("verify.block-longest-length", "verify.block-residual")
def block_verification(block: Block, memory: Memory) -> Iterator[Judged]:
    """Accept the longest length whose coin falls (Sun et al. 2024, arXiv 2403.10444, algorithm 2).

    Coins are read from the longest length down, which decides the same as reading all of them.
    """
    count = len(block.proposals)
    shares = block_shares(block)
    weight = ONE
    for length in range(count, 0, -1):
        chance = shares[length] if length == count else block_chance(block, length, shares[length])
        address = block.addresses.coin(block.start, length - 1)
        falls = {heads: (share, known) for heads, share, known in block.draws.coin(memory, address, chance)}
        if True in falls:
            share, known = falls[True]
            yield from _ended_at(block, length, shares[length], weight * share, known)
        if False not in falls:
            return
        share, memory = falls[False]
        weight *= share
    yield from _ended_at(block, 0, ONE, weight, memory)


def block_shares(block: Block) -> list[Fraction]:
    """w_0 = 1, w_i = min(1, w_(i-1) * p_i(x_i) / q_i(x_i))."""
    shares = [ONE]
    for index in range(len(block.proposals)):
        shares.append(min(ONE, shares[-1] * block.ratio(index)))
    return shares


def block_chance(block: Block, length: int, share: Fraction) -> Fraction:
    """h_i = R_i / (R_i + 1 - w_i) with R_i = sum of (w_i * p - q)+ behind the first i proposals, for i < k.

    Where w_i = 1 and p = q it reads 0 / 0 and counts as 0: then w_(i+1) = 1 too, and a longer length is accepted
    with certainty, so that nobody asks for this one.
    """
    rest = sum(excess(block.target(length), block.draft(length), share), Fraction(0))
    return rest / (rest + 1 - share) if rest else Fraction(0)


def _ended_at(block: Block, length: int, share: Fraction, weight: Fraction, memory: Memory) -> Iterator[Judged]:
    if length == len(block.proposals):
        yield from _bonus(block, weight, memory)
    else:
        row = residual(block.target(length), block.draft(length), share)
        yield from _replaced(block, length, row, weight, memory)


@obeys("verify.coupled-shared-vector")
def coupled(block: Block, memory: Memory) -> Iterator[Judged]:
    """Draw the target's token by the vector that gave the proposal, and accept iff they are equal."""
    ways = [(ONE, memory)]
    for index, proposal in enumerate(block.proposals):
        address = block.addresses.residual(block.start + index)
        going_on = []
        for weight, known in ways:
            rows = block.target(index), block.draft(index)
            for token, share, after in block.draws.shared(known, address, *rows, proposal):
                if token == proposal:
                    going_on.append((weight * share, after))
                else:
                    yield Judged(index, token, weight * share, after)
        ways = going_on
    for weight, known in ways:
        yield from _bonus(block, weight, known)


@obeys("verify.greedy-argmax", "randomness.greedy-reads-none")
def greedy(block: Block, memory: Memory) -> Iterator[Judged]:
    """Take the most probable id, the lowest on ties, and accept iff the proposal is that."""
    for index, proposal in enumerate(block.proposals):
        best = argmax(block.target(index))
        if best != proposal:
            yield Judged(index, best, ONE, memory)
            return
    count = len(block.proposals)
    yield Judged(count, None if block.ended else argmax(block.target(count)), ONE, memory)


@obeys("verify.greedy-argmax")
def argmax(row: Row) -> int:
    """The most probable id, the lowest on ties."""
    return row.index(max(row))


def _replaced(block: Block, index: int, row: Row, weight: Fraction, memory: Memory) -> Iterator[Judged]:
    """The target's token instead of proposal `index`."""
    address = block.addresses.residual(block.start + index)
    for token, share, known in block.draws.token(memory, address, row):
        yield Judged(index, token, weight * share, known)


@obeys("bonus.from-target", "constraints.drafting-stops-at-completion", "draft.empty-block-is-plain")
def _bonus(block: Block, weight: Fraction, memory: Memory) -> Iterator[Judged]:
    """The target's token behind a block that was accepted whole."""
    count = len(block.proposals)
    if block.ended:
        yield Judged(count, None, weight, memory)
        return
    address, row = block.addresses.target(block.start + count), block.target(count)
    if block.rule == "coupled" and block.guess is not None:
        falls = block.draws.shared(memory, address, row, block.draft(count), block.guess)
    else:
        falls = block.draws.token(memory, address, row)
    for token, share, known in falls:
        yield Judged(count, token, weight * share, known)


RULES: dict[str, Callable[[Block, Memory], Iterator[Judged]]] = {
    "rejection": rejection,
    "block": block_verification,
    "coupled": coupled,
    "greedy": greedy,
}
"""The acceptance rules by name."""
