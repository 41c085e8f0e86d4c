"""The protocols a backend implements. The scheduler knows nothing else of models, arrays and devices.

A backend prepares executors, caches, sampling state, streams and completions, and lends them for the length of a
with-block, or of one call to a visitor; an executor carries out what the scheduler decides, for one model form (an
assistant beside the target, heads inside it, or no drafter at all). Embedded heads and assistants use the same
protocol, and so does plain decoding, whose blocks are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from eredu.contract.capability import MtpCapability
from eredu.contract.constraint import Constraint
from eredu.contract.options import GenerationOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.terminal import OutputText

BlockT = TypeVar("BlockT", bound="DraftBlock")
SequenceT = TypeVar("SequenceT")
VerificationT = TypeVar("VerificationT")
DrafterT_contra = TypeVar("DrafterT_contra", contravariant=True)
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ExecutorTraits:
    """What the scheduler must know of an executor before it plans a round.

    Attributes:
        vocabulary_size: Logit rows that may be proposed or emitted.
        max_proposals: The checkpoint's validated cap on proposals a round; 0 for plain decoding.
        target_context: Tokens that the target can take as inputs.
        drafter_context: The same of the drafter; None where it sets no limit of its own.
        exact_promotion: Whether a lookahead branch, drafted from a clone of the frontier, is the very block that
            drafting after the commit would give.
        needs_hidden: Whether the first proposal is made from a hidden state of the target, so that there is none while
            the target has no token in its cache.
    """

    vocabulary_size: int
    max_proposals: int
    target_context: int
    drafter_context: int | None
    exact_promotion: bool
    needs_hidden: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request, resolved: everything that its output may depend on.

    Attributes:
        index: Number of the request within its call.
        prompt: Prompt token ids, at least one.
        options: The caller's options; `eos_ids` are filled in.
        randomness: Root of the request's draws.
        constraint: State of the grammar before the first output token, or None.
        text: Streaming text and stop strings before the first output token, or None where only ids are wanted.
    """

    index: int
    prompt: tuple[int, ...]
    options: GenerationOptions
    randomness: RequestRandomness
    constraint: Constraint | None = None
    text: OutputText | None = None


class DraftBlock(Protocol):
    """Proposals in order, the processed distribution of each, and the exact frontier of the drafter behind them.

    The tokens are the executor's business: they may still be running on a device.
    """

    @property
    def count(self) -> int:
        """Number of proposals; 0 in plain decoding."""
        ...

    @property
    def at_grammar_end(self) -> bool:
        """Whether the grammar is complete behind the last proposal, so that nothing may be drafted there."""
        ...


@dataclass(frozen=True, slots=True)
class VerificationOutcome:
    """What verifying a block gave.

    Attributes:
        proposals: The block's token ids.
        accepted: How many of them, from the first, the acceptance rule took.
        token: The bonus if all were accepted, else the replacement of the first rejected one.
    """

    proposals: tuple[int, ...]
    accepted: int
    token: int


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The one decision that moves an executor's state.

    Attributes:
        kept: How many of the verified inputs (the leading token, then the proposals) stay in the target's cache.
        tokens: The tokens committed by this round; as many as `kept`.
        promoted: How many proposals of the lookahead branch, behind its guess at the bonus, start the next block;
            None drops the branch, if there is one.
    """

    kept: int
    tokens: tuple[int, ...]
    promoted: int | None = None


class SpeculativeExecutor(Protocol[SequenceT, BlockT, VerificationT]):
    """Carries out one model form. Between `submit` and `wait` the device works and the host is free.

    For one sequence the scheduler calls `open`; `prefill` until nothing is left; then for each round `draft` (unless
    the promoted block is full already), `submit`, perhaps `branch`, `wait`, `bonus_guess` (only if that can decide)
    and `commit`; at the end `close`, once. A cancelled round ends with `wait` and a `commit` that keeps nothing.
    Whatever a call raises, the next call for that sequence is `close`. Calls for other sequences may stand between
    any two.
    """

    @property
    def traits(self) -> ExecutorTraits:
        """Limits and promises, constant for the executor's life."""
        ...

    def open(self, request: GenerationRequest) -> SequenceT:
        """Caches and sampling state for one request; nothing is fed yet."""
        ...

    def prefill(self, sequence: SequenceT, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1]; return how many are still to be fed."""
        ...

    def draft(self, sequence: SequenceT, count: int, promoted: BlockT | None, constraint: Constraint | None) -> BlockT:
        """Draft until the block has `count` proposals, from the committed frontier or behind `promoted`.

        The block is shorter only where the grammar is complete after its last proposal.
        """
        ...

    def submit(self, sequence: SequenceT, block: BlockT, more: bool) -> VerificationT:  # noqa: FBT001
        """Start verifying the leading token and the block; do not wait.

        `more` says that the budget leaves room for another round, so that an executor without drafter may keep the
        device busy with it.
        """
        ...

    def branch(self, sequence: SequenceT, block: BlockT, count: int) -> BlockT:
        """Draft `count` tokens behind `block` from a clone of its frontier; the first guesses the bonus."""
        ...

    def wait(self, sequence: SequenceT, verification: VerificationT) -> VerificationOutcome:
        """Wait for a verification, once. Raises `AcceptanceError` on numbers that no correct engine produces."""
        ...

    def bonus_guess(self, sequence: SequenceT, branch: BlockT) -> int:
        """The branch's guess at the bonus."""
        ...

    def commit(self, sequence: SequenceT, plan: CommitPlan, branch: BlockT | None) -> BlockT | None:
        """Settle caches and sampling state; return the promoted start of the next block, if one is planned."""
        ...

    def close(self, sequence: SequenceT) -> None:
        """Release a request, waiting first for what still runs on its arrays."""
        ...


class SpeculativeGenerationVisitor(Protocol[ResultT_co]):
    """Receives the executor that a backend lends, and uses it while the backend keeps it alive."""

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> ResultT_co:
        """Run a schedule on the executor."""
        ...


@runtime_checkable
class GenerationBackend(Protocol):
    """A backend that decodes, if only plainly. Backends derive from it and get the visitor's form of lending."""

    @property
    def name(self) -> str:
        """Name for messages: what the backend runs on."""
        ...

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an output unless the request names its own."""
        ...

    def output_text(self, stop_strings: Sequence[str]) -> OutputText | None:
        """Visible text of one output, cut at the stop strings; None where the backend has no tokenizer."""
        ...

    def plain_executor(self) -> AbstractContextManager[SpeculativeExecutor[Any, Any, Any]]:
        """An executor that proposes nothing, lent until the with-block ends."""
        ...

    def lend_plain(self, visitor: SpeculativeGenerationVisitor[ResultT]) -> ResultT:
        """Lend `plain_executor` for the length of a visit."""
        with self.plain_executor() as executor:
            return visitor.visit(executor)


@runtime_checkable
class SpeculativeGenerationBackend(GenerationBackend, Protocol[DrafterT_contra]):
    """A backend that decodes with drafters of its own type."""

    def mtp_capability(self, drafter: DrafterT_contra | None) -> MtpCapability:
        """What decoding with this drafter (None: with the target's own heads) would be."""
        ...

    def speculative_executor(
        self, drafter: DrafterT_contra | None
    ) -> AbstractContextManager[SpeculativeExecutor[Any, Any, Any]]:
        """An executor that proposes with the drafter, lent until the with-block ends.

        Entering raises `CapabilityError` where it cannot be exact.
        """
        ...

    def lend_speculative(
        self,
        drafter: DrafterT_contra | None,
        visitor: SpeculativeGenerationVisitor[ResultT],
    ) -> ResultT:
        """Lend `speculative_executor` for the length of a visit."""
        with self.speculative_executor(drafter) as executor:
            return visitor.visit(executor)
