"""State of one request on the device: committed tokens, caches, and the round that is running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from eredu.contract.constraint import Constraint
from eredu.contract.request import GenerationRequest
from eredu.engine.head_state import HeadState
from eredu.mlx.cache import SequenceCache
from eredu.mlx.placement import Completion
from eredu.mlx.summary import Summary


@dataclass(slots=True)
class MlxBlock:
    """Proposals on the device.

    Attributes:
        before: Tokens between the committed ones and the first proposal, each of shape (1,): the parent block of a
            lookahead branch, else nothing.
        tokens: The proposals, each of shape (1,), uint32.
        scores: The processed scores each was drawn from, each of shape (1, vocabulary); empty where the acceptance
            rule compares tokens only.
        constraints: The grammar's state before each proposal and behind the last; empty without a grammar.
    """

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

    def tail(self, start: int, count: int) -> MlxBlock:
        """A block of `count` of the proposals, from number `start` on, with nothing before it."""
        stop = start + count
        return MlxBlock(
            tokens=self.tokens[start:stop],
            scores=self.scores[start:stop],
            constraints=self.constraints[start : stop + 1],
        )


@dataclass(slots=True)
class MlxVerification:
    """A verification on its way.

    Attributes:
        summary: What the host will read, in one synchronisation.
        tokens: The target's own token at each row, shape (rows,), uint32, where the rule has one; else None.
        completion: Computes it, and keeps caches and block alive meanwhile.
    """

    summary: Summary
    tokens: mx.array | None
    completion: Completion


@dataclass(slots=True)
class MlxSequence:
    """One request on the device.

    Attributes:
        request: The request.
        tokens: Prompt and committed output.
        target: The target's caches; between rounds they hold all tokens but the last, and one more while `ahead` runs.
        drafter: The drafter's caches, or None.
        heads: The state of the target's own heads, or None.
        ahead: A verification of the next, empty block, started before the token that leads it reached the host.
        running: Completions not yet known to be over.
        drafting: The latest proposal; the drafter's stream is at rest once it is computed.
    """

    request: GenerationRequest
    tokens: list[int]
    target: SequenceCache
    drafter: SequenceCache | None = None
    heads: HeadState | None = None
    ahead: MlxVerification | None = None
    running: list[Completion] = field(default_factory=list)
    drafting: mx.array | None = None

    @property
    def output(self) -> Sequence[int]:
        """Committed output tokens."""
        return self.tokens[len(self.request.prompt) :]

    @property
    def position(self) -> int:
        """Output position of the next token."""
        return len(self.tokens) - len(self.request.prompt)
