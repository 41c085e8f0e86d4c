"""The state of one request under the scheduler: what is installed, and the round that is not yet part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from eredu.contract.errors import EreduError
from eredu.contract.executor import BlockT, SequenceT, VerificationT
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics
from eredu.contract.terminal import FinishReason, TerminalWatch
from eredu.scheduling.clipping import Depth
from eredu.scheduling.lookahead import AdaptiveLookahead
from eredu.scheduling.phase import TERMINAL, Phase, check_edge


@dataclass(slots=True)
class Round(Generic[BlockT, VerificationT]):
    """What a round owns until its commit; dropped whole by rejection of a branch, cancellation and failure.

    Attributes:
        depth: The clip decided for it.
        block: Its proposals, or the promoted start of them.
        verification: The verification in flight.
        branch: The lookahead branch.
        planned: Tokens that the branch plans for; 0 without one.
        drafting_s: Seconds spent drafting the block and the branch.
    """

    depth: Depth
    block: BlockT | None = None
    verification: VerificationT | None = None
    branch: BlockT | None = None
    planned: int = 0
    drafting_s: float = 0.0


@dataclass(slots=True, eq=False)
class RequestState(Generic[SequenceT, BlockT, VerificationT]):
    """One request under the scheduler.

    Attributes:
        request: The request as it was given.
        sequence: The executor's state for it.
        watch: What can end the output, before its next token.
        adaptive: The switch of its lookahead.
        opened_s: Clock at the opening.
        phase: Where it stands.
        output: Committed output tokens.
        statistics: Its counters, up to the last commit.
        finish: Why it ended, once it has.
        round: The round that is not yet committed.
        cancelling: Whether a callback asked to cancel it.
    """

    request: GenerationRequest
    sequence: SequenceT
    watch: TerminalWatch
    adaptive: AdaptiveLookahead
    opened_s: float
    phase: Phase = Phase.PREFILL
    output: list[int] = field(default_factory=list)
    statistics: RequestStatistics = field(default_factory=RequestStatistics)
    finish: FinishReason | None = None
    round: Round[BlockT, VerificationT] | None = None
    cancelling: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the request may still act."""
        return self.phase not in TERMINAL

    @property
    def committed(self) -> int:
        """Tokens of prompt and output so far."""
        return len(self.request.prompt) + len(self.output)

    @property
    def current(self) -> Round[BlockT, VerificationT]:
        """The round. Raises `EreduError` in a phase that has none."""
        if self.round is None:
            raise EreduError(f"request {self.request.index} has no round in phase '{self.phase}'")
        return self.round

    @property
    def block(self) -> BlockT:
        """The block of the round. Raises `EreduError` where none was drafted."""
        block = self.current.block
        if block is None:
            raise EreduError(f"request {self.request.index} has no block in phase '{self.phase}'")
        return block

    # rule: scheduling.phase-edges
    def enter(self, phase: Phase) -> None:
        """Take an edge of the life cycle. Raises `PhaseError` if it has none."""
        self.phase = check_edge(self.request.index, self.phase, phase)
