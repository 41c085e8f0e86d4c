"""Proposals on the device, in a block that is verified or a branch that may become one."""

from __future__ import annotations

from dataclasses import dataclass, field

import mlx.core as mx

from eredu.contract.constraint import Constraint


@dataclass(slots=True)
class MlxBlock:
    """Proposals on the device.

    Attributes:
        position: Output position where the block's round starts, or its parent's round if it is a branch.
        before: Tokens between the committed ones and the first proposal, each of shape (1,): the parent block of a
            lookahead branch, else nothing.
        tokens: The proposals, each of shape (1,), uint32.
        scores: The processed scores each was drawn from, each of shape (1, vocabulary); empty where the acceptance
            rule compares tokens only.
        constraints: The grammar's state before each proposal and behind the last; empty without a grammar.
    """

    position: int
    before: list[mx.array] = field(default_factory=list)
    tokens: list[mx.array] = field(default_factory=list)
    scores: list[mx.array] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of proposals."""
        return len(self.tokens)

    @property
    def at_grammar_end(self) -> bool:
        """Whether the grammar is complete behind the last proposal."""
        return bool(self.constraints) and self.constraints[-1].complete

    @property
    def pending(self) -> list[mx.array]:
        """All tokens behind the committed ones, each of shape (1,)."""
        return [*self.before, *self.tokens]

    # rule: randomness.by-round, lookahead.clone-of-frontier
    @property
    def next_address(self) -> tuple[int, int]:
        """Where the round that owns the next proposal's draw starts, and the proposal's number within it.

        A branch's guess at the bonus belongs to its parent's round, what follows to the round behind it.
        """
        if not self.before:
            return self.position, self.count
        if self.count == 0:
            return self.position, len(self.before)
        return self.position + len(self.before) + 1, self.count - 1

    def wants(self, count: int) -> bool:
        """Whether another proposal may be added on the way to `count`."""
        return self.count < count and not self.at_grammar_end

    def branch(self) -> MlxBlock:
        """An empty branch behind the block."""
        return MlxBlock(self.position, before=list(self.tokens), constraints=self.constraints[-1:])

    # rule: promotion.consume-one-reuse-the-rest
    def promoted(self, count: int) -> MlxBlock:
        """The block of the next round that a branch becomes: `count` proposals behind its guess at the bonus."""
        stop = 1 + count
        return MlxBlock(
            self.position + len(self.before) + 1,
            tokens=self.tokens[1:stop],
            scores=self.scores[1:stop],
            constraints=self.constraints[1 : stop + 1],
        )
