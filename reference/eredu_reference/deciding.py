"""Deciding a round: which proposals are accepted, and which token the target adds behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eredu_reference.acceptance import block_weights, greedy_token
from eredu_reference.decoding import Decoding, Setting
from eredu_reference.frontier import Block
from eredu_reference.models import Output
from eredu_reference.pieces import Pieces
from eredu_reference.requests import AcceptanceRule
from eredu_reference.rows import Row
from eredu_reference.sources import RandomSource, Uniform


@dataclass(frozen=True)
class Decision:
    """What the acceptance rule says of a block.

    Attributes:
        accepted: Proposals taken, from the first.
        token: The bonus if all were taken, else the replacement of the first that was not.
    """

    accepted: int
    token: int


def target_rows(setting: Setting, state: Decoding, block: Block, outputs: Sequence[Output]) -> list[Row]:
    """Processed distribution of each verified row, k + 1 of shape (V,); row i sees the i proposals before it."""
    pieces, request, own = setting.pieces, state.request, state.round.judged_with
    return [
        pieces.target_row(
            request,
            pieces.usable(output.logits, setting.target.vocabulary),
            pieces.history_for_row(own.history, block.tokens, index),
            pieces.mask_for_row(request.constraint, own.grammar, block.tokens, index),
        )
        for index, output in enumerate(outputs)
    ]


@dataclass(frozen=True)
class Judge:
    """Applies a request's acceptance rule to one block.

    Attributes:
        pieces: The engine's parts.
        rule: The rule in force.
        source: The request's random source.
        start: Output position of the first proposal.
        proposals: The k proposals.
        draft_rows: The distributions that they were drawn from, k of shape (V,).
        rows: The target's processed distributions, k + 1 of shape (V,).
    """

    pieces: Pieces
    rule: AcceptanceRule
    source: RandomSource
    start: int
    proposals: Sequence[int]
    draft_rows: Sequence[Row]
    rows: Sequence[Row]

    def decide(self) -> Decision:
        """What the rule says. Raises `AcceptanceError` for rows that no correct engine produces."""
        return RULES[self.rule](self)

    def greedy(self) -> Decision:
        """Temperature 0: proposals that are the argmax, then the argmax."""
        accepted = self.pieces.greedy_length(self.proposals, self.rows)
        return Decision(accepted, greedy_token(self._row(accepted)))

    def coupled(self) -> Decision:
        """Proposals that the shared noise picks from the target's rows too, then what it picks."""
        tokens = dict[int, int]()

        def token_at(index: int) -> int:
            if index not in tokens:
                tokens[index] = self._bonus(index, self._row(index))
            return tokens[index]

        accepted = self.pieces.coupled_length(self.proposals, token_at)
        return Decision(accepted, token_at(accepted))

    def rejection(self) -> Decision:
        """A coin for each proposal, up to the first that rejects one."""
        length = self.pieces.rejection_length
        return self._ending(length(self.proposals, self.rows, self.draft_rows, self._coin, self.pieces.accepts))

    def block(self) -> Decision:
        """A coin for each length; the residual of the longest that stands has that length's weight."""
        length, threshold = self.pieces.block_length, self.pieces.block_threshold
        accepted = length(self.proposals, self.rows, self.draft_rows, self._coin, threshold)
        return self._ending(accepted, block_weights(self.proposals, self.rows, self.draft_rows)[accepted])

    def _ending(self, accepted: int, weight: float = 1.0) -> Decision:
        """The bonus behind a block that stands whole, else a replacement from the residual (weight * p - q)+."""
        if accepted == len(self.proposals):
            return Decision(accepted, self._bonus(accepted, self._row(accepted)))
        row = self.pieces.residual(self.rows[accepted], self.draft_rows[accepted], weight)
        address = self.pieces.replacement_address(self.rule, self.start + accepted)
        return Decision(accepted, self.pieces.draw_replacement(self.source, address, row))

    def _coin(self, index: int) -> Uniform:
        return self.pieces.read_coin(self.source, self.pieces.coin_address(self.rule, self.start, index))

    def _bonus(self, index: int, row: Row) -> int:
        return self.pieces.draw_bonus(self.source, self.pieces.target_address(self.rule, self.start + index), row)

    def _row(self, index: int) -> Row:
        """Row of the token at `index`; behind all proposals, the bonus row."""
        behind = index == len(self.proposals)
        return self.pieces.bonus_row(self.rows, self.draft_rows) if behind else self.rows[index]


RULES: Mapping[AcceptanceRule, Callable[[Judge], Decision]] = {
    AcceptanceRule.REJECTION: Judge.rejection,
    AcceptanceRule.BLOCK: Judge.block,
    AcceptanceRule.COUPLED: Judge.coupled,
    AcceptanceRule.GREEDY: Judge.greedy,
}
"""The acceptance rules by name."""
