"""What a drafter is: whatever proposes tokens to an executor, composed with it and not a kind of it.

The executor owns a request: its committed tokens, the target's cache, blocks and verifications. A drafter owns what it
needs for proposing: a state of its own type, one a request, which the executor stores and never looks into. Plain
decoding is the drafter that proposes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag
from typing import Protocol, TypeVar

from eredu.contract.executor import CommitPlan
from eredu.contract.request import GenerationRequest

StateT = TypeVar("StateT")
DraftT_contra = TypeVar("DraftT_contra", contravariant=True)
ViewT_contra = TypeVar("ViewT_contra", contravariant=True)


class Reads(Flag):
    """What a drafter reads of its request. The executor records and hands over just that."""

    HISTORY = 0
    """The committed tokens, which every drafter is given."""
    HIDDEN = 1
    """Hidden rows of the target besides, one for each token that stays in its cache."""
    CACHE = 2
    """The target's cache besides, to attend to."""


@dataclass(frozen=True, slots=True)
class DrafterTraits:
    """Limits and promises of a drafter, constant for its life.

    Attributes:
        max_proposals: Validated cap on proposals a round; 0 proposes nothing.
        context: Tokens that it can take as inputs; None where it sets no limit of its own.
        exact_promotion: Whether a branch is the very block that `propose` would give behind the commit.
    """

    max_proposals: int
    context: int | None = None
    exact_promotion: bool = False


class History(Protocol):
    """What is committed of one request."""

    @property
    def request(self) -> GenerationRequest:
        """The request."""

    @property
    def tokens(self) -> list[int]:
        """Prompt and committed output; the last one is not yet in the target's cache."""

    @property
    def output(self) -> Sequence[int]:
        """Committed output."""

    @property
    def position(self) -> int:
        """Output position of the next token."""


class Drafter(Protocol[StateT, DraftT_contra, ViewT_contra]):
    """Proposes tokens for one loaded target.

    For one request the executor calls `open`; `prefill` for each chunk of the prompt; then for each round `propose`
    (unless a promoted block is full already), perhaps `branch`, and `settle`; at the end `close`, once. Whatever a
    call raises, the next one for that request is `close`. Calls for other requests may stand between any two, so
    everything that is a request's own is in its state. States are values: a deep copy of one at rest goes on by itself.

    `view` holds what `reads` asks for of the target, and nothing else:

    - the cache, in every call: up to the chunk in `prefill`; all committed tokens but the last in `propose` and
      `settle`; the verification that runs, too, in `branch`;
    - hidden rows, in `prefill` those of the chunk, and in `settle` those of the verified inputs (the leading token,
      then the proposals), of which the first `plan.kept` stand. Of a prompt, the last token's row comes with the first
      verification, so the first block of a prompt of one token is empty.
    """

    @property
    def reads(self) -> Reads:
        """What of the target is recorded for it."""

    @property
    def traits(self) -> DrafterTraits:
        """Limits and promises."""

    def open(self, request: GenerationRequest) -> StateT:
        """The state of one request that has read nothing yet."""

    def prefill(self, state: StateT, history: History, fed: range, view: ViewT_contra) -> None:
        """Read the prompt tokens numbered `fed`, which the target is being fed; wait for what it starts itself."""

    def propose(self, state: StateT, history: History, block: DraftT_contra, count: int, view: ViewT_contra) -> None:
        """Add proposals to a block, behind those that it has, until there are `count` or its grammar is complete."""

    def branch(self, state: StateT, history: History, branch: DraftT_contra, count: int, view: ViewT_contra) -> None:
        """Fill a block that stands behind another one whose verification runs; its first token guesses the bonus.

        Only called on drafters with `exact_promotion`. The frontier behind the parent must be found again if the
        branch is dropped.
        """

    def settle(self, state: StateT, history: History, plan: CommitPlan, view: ViewT_contra) -> None:
        """Bring the state to the commit, which `history` holds already.

        `plan.kept` of the verified inputs stay, so the drafter forgets what it made of the others. A round that was
        cancelled keeps nothing. If `plan.promoted` is a number, what it made of the branch stays, up to the guess at
        the bonus and so many proposals behind it, which `propose` continues; if it is None, nothing of the branch does.
        """

    def close(self, state: StateT, history: History) -> None:
        """Wait for what still runs, and leave the state at the committed boundary."""
