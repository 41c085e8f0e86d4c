"""State of the table executor: one sequence, its draft blocks, and the verification that is running."""

from __future__ import annotations

from dataclasses import dataclass

from eredu.contract.executor import VerificationOutcome
from eredu.contract.request import GenerationRequest
from eredu_conformance.harness.grammar_state import GrammarTrack
from eredu_reference.caches import Cache
from eredu_reference.models import Output
from eredu_reference.requests import Sampling
from eredu_reference.rows import Row
from eredu_reference.sources import RandomSource


class ExecutorMisuseError(AssertionError):
    """The scheduler asked an executor for something out of order, or with the wrong numbers."""


def require(ok: bool, message: str) -> None:  # noqa: FBT001
    """Raise `ExecutorMisuseError` unless `ok`."""
    if not ok:
        raise ExecutorMisuseError(message)


@dataclass(frozen=True)
class TableBlock:
    """Proposals, the distribution of each, and the frontier of the drafter behind them.

    Attributes:
        boundary: Tokens before the first proposal, those of a parent block included.
        tokens: The proposals.
        rows: The processed distribution that each was drawn from, shape (vocabulary,).
        frontier: A cache of its own, fed with everything before the last proposal; None while nothing was drafted.
        grammar: The grammar over the proposals.
    """

    boundary: int
    tokens: tuple[int, ...]
    rows: tuple[Row, ...]
    frontier: Cache | None
    grammar: GrammarTrack

    @property
    def count(self) -> int:
        """Number of proposals."""
        return len(self.tokens)

    @property
    def at_grammar_end(self) -> bool:
        """Whether the grammar is complete behind the last proposal."""
        return self.grammar.at_end


@dataclass(eq=False)
class TableVerification:
    """A verification on its way.

    Attributes:
        block: The block.
        outputs: What the target gave for the leading token and each proposal, k + 1 of them.
        outcome: The decision, once somebody has waited for it.
    """

    block: TableBlock
    outputs: tuple[Output, ...]
    outcome: VerificationOutcome | None = None


@dataclass(eq=False)
class TableSequence:
    """One request.

    Attributes:
        request: The request.
        sampling: Its options as the reference writes them.
        source: Its random numbers.
        tokens: Prompt and committed output.
        target: The target's cache.
        drafter: The drafter's cache at the committed boundary, or None.
        promoted: The block that the last commit promoted.
        running: The verification in flight.
        branch: The lookahead branch.
        closed: Whether the request was released.
    """

    request: GenerationRequest
    sampling: Sampling
    source: RandomSource
    tokens: list[int]
    target: Cache
    drafter: Cache | None
    promoted: TableBlock | None = None
    running: TableVerification | None = None
    branch: TableBlock | None = None
    closed: bool = False

    @property
    def position(self) -> int:
        """Output position of the next token."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"request {self.request.index} at {len(self.tokens)} tokens"
