"""The executor protocol and the values that cross it. The scheduler knows nothing else of models, arrays and devices.

An executor carries out what the scheduler decides, for one model form (an assistant beside the target, heads inside
it, or no drafter at all). Embedded heads and assistants use the same protocol, and so does plain decoding, whose
blocks are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from eredu.contract.constraint import Constraint
from eredu.contract.request import GenerationRequest

BlockT = TypeVar("BlockT", bound="DraftBlock")
SequenceT = TypeVar("SequenceT")
VerificationT = TypeVar("VerificationT")


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


class DraftBlock(Protocol):
    """Proposals in order, the processed distribution of each, and the exact frontier of the drafter behind them.

    The tokens are the executor's business: they may still be running on a device.
    """

    @property
    def count(self) -> int:
        """Number of proposals; 0 in plain decoding."""

    @property
    def at_grammar_end(self) -> bool:
        """Whether the grammar is complete behind the last proposal, so that nothing may be drafted there."""


@dataclass(frozen=True, slots=True)
class Submission(Generic[SequenceT, BlockT]):
    """One member of a group that is submitted together.

    Attributes:
        sequence: The executor's state of the request.
        block: Its proposals; the leading token is verified before them.
        more: Whether the budget leaves room for another round, so that an executor without drafter may keep the device
            busy with it.
    """

    sequence: SequenceT
    block: BlockT
    more: bool


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

    def open(self, request: GenerationRequest) -> SequenceT:
        """Caches and sampling state for one request; nothing is fed yet."""

    def prefill(self, sequence: SequenceT, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1]; return how many are still to be fed."""

    def draft(self, sequence: SequenceT, count: int, promoted: BlockT | None, constraint: Constraint | None) -> BlockT:
        """Draft until the block has `count` proposals, from the committed frontier or behind `promoted`.

        The block is shorter only where the grammar is complete after its last proposal.
        """

    def submit(self, group: Sequence[Submission[SequenceT, BlockT]]) -> list[VerificationT | Exception]:
        """Start verifying each member's leading token and block; do not wait.

        Args:
            group: One submission or several, each of another sequence, in the order of the scheduler's ring.

        Returns one entry a member, in order: its verification, or the exception that ends this member alone. What the
        call itself raises ends every member.
        """

    def branch(self, sequence: SequenceT, block: BlockT, count: int) -> BlockT:
        """Draft `count` tokens behind `block` from a clone of its frontier; the first guesses the bonus."""

    def wait(self, sequence: SequenceT, verification: VerificationT) -> VerificationOutcome:
        """Wait for a verification, once. Raises `AcceptanceError` on numbers that no correct engine produces."""

    def bonus_guess(self, sequence: SequenceT, branch: BlockT) -> int:
        """The branch's guess at the bonus."""

    def commit(self, sequence: SequenceT, plan: CommitPlan, branch: BlockT | None) -> BlockT | None:
        """Settle caches and sampling state; return the promoted start of the next block, if one is planned."""

    def close(self, sequence: SequenceT) -> None:
        """Release a request, waiting first for what still runs on its arrays."""


def submit_in_turn(
    group: Sequence[Submission[SequenceT, BlockT]], submit: Callable[[Submission[SequenceT, BlockT]], VerificationT]
) -> list[VerificationT | Exception]:
    """Submit the members one after another: `SpeculativeExecutor.submit` where forwards cannot be joined.

    Args:
        group: The members.
        submit: Starts the verification of one member; what it raises is that member's entry.
    """
    entries: list[VerificationT | Exception] = []
    for member in group:
        try:
            entries.append(submit(member))
        except Exception as error:
            entries.append(error)
    return entries


def submit_alone(
    executor: SpeculativeExecutor[SequenceT, BlockT, VerificationT], sequence: SequenceT, block: BlockT
) -> VerificationT:
    """Start one verification as a group of its own, with no round behind it. Raises what is in the member's place."""
    [entry] = executor.submit([Submission(sequence, block, more=False)])
    if isinstance(entry, Exception):
        raise entry
    return entry
