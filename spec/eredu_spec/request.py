"""One request: what it was opened with, what it is, and the outcome of a round that it is not yet.

What a request is opened with names where tokens come from and who decides between rounds, and both read requests: these
types are of each other, so they stand in one file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from eredu_spec.acceptance import RULES
from eredu_spec.addressing import Addressing, addressing_of
from eredu_spec.draws import Draw, Memory, Outcome, Tokens
from eredu_spec.phases import Phase, Stage
from eredu_spec.randomness import Address
from eredu_spec.sites import obeys
from eredu_spec.statistics import Statistics


class Adaptive(NamedTuple):
    """The switch and the counters of the current window.

    Attributes:
        enabled: Whether branches are drafted.
        resolved: Branches promoted or dropped in this window.
        reused: Their tokens that started a next block.
        discarded: Tokens they had planned for that were neither consumed nor reused.
    """

    enabled: bool = True
    resolved: int = 0
    reused: int = 0
    discarded: int = 0


class Model(Protocol):
    """Where tokens come from: exact tables for the law, free choices for exploration and replay."""

    def propose(
        self, request: Request, proposed: Tokens, reach: int, memory: Memory, address: Address
    ) -> Iterable[Draw]:
        """The ways in which the token behind `output + proposed` can be proposed."""
        ...

    def verify(self, request: Request) -> Iterable[Outcome]:
        """The ways in which the verification of the request's block can fall."""
        ...

    def conditions(self, output: Tokens, token: int) -> int:
        """Which terminal conditions `token` meets behind `output`, as a mask."""
        ...


class Control(Protocol):
    """Decides about lookahead and K between rounds.

    Both decisions see the whole round, and must use only what cannot be drawn again: outcomes and planned lengths,
    never a proposal or coin behind the accepted length.
    """

    def lookahead(self, request: Request, resolution: Resolution) -> Adaptive:
        """The switch behind a round whose branch was promoted or dropped."""
        ...

    def requested(self, request: Request, resolution: Resolution) -> int:
        """K asked for in the next round."""
        ...


@obeys("capability.no-silent-fallback", "capability.validated-cap", "lookahead.exact-promotion-only")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Settings:
    """One request's settings, and the limits of the model form that serves it.

    Attributes:
        model: Where tokens come from.
        number: Number of the request within its call.
        prompt: Prompt tokens, at least one.
        max_tokens: Output tokens at the most.
        requested: K, proposals asked for in a round.
        rule: `rejection`, `block`, `coupled` or `greedy`.
        lookahead_depth: Tokens of a branch at the most, the guess included; None turns lookahead off, and 1 leaves
            no branch worth drafting.
        window: Resolved branches after which the adaptive decision is taken; None never takes it.
        capability: The checkpoint's validated cap on proposals; None where it sets none.
        target_context: Tokens the target takes as inputs; None where it sets no limit.
        drafter_context: The same of the drafter.
        exact_promotion: Whether a branch is the block that drafting after the commit would give.
        needs_hidden: Whether the first proposal is made from a hidden state of the target, so that there is none while
            the target's cache is empty.
        prefill_chunk: Prompt tokens fed in one turn at the most.
        control: Decisions about lookahead and K; None takes the rules' own, `AdaptiveControl`.
        addressing: Which address a draw has; None takes the rule's own.
        counts: Whether the state carries the statistics and the ledger of addresses, which explorations can do without.
    """

    model: Model
    number: int = 0
    prompt: Tokens = (0, 0)
    max_tokens: int
    requested: int
    rule: str = "rejection"
    lookahead_depth: int | None = None
    window: int | None = None
    capability: int | None = None
    target_context: int | None = None
    drafter_context: int | None = None
    exact_promotion: bool = True
    needs_hidden: bool = False
    prefill_chunk: int = 512
    control: Control | None = None
    addressing: Addressing | None = None
    counts: bool = False

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule was {self.rule!r}; expected one of {', '.join(RULES)}")
        if not self.prompt:
            raise ValueError("the prompt has no token; expected at least one, which leads the first verification")
        if self.target_context is not None and len(self.prompt) > self.target_context:
            raise ValueError(f"the prompt has {len(self.prompt)} tokens and the target takes {self.target_context}")
        if self.max_tokens < 1 or self.requested < 0 or self.prefill_chunk < 1:
            raise ValueError(
                f"max_tokens was {self.max_tokens}, K {self.requested} and prefill_chunk {self.prefill_chunk}; "
                "expected at least 1, 0 and 1"
            )
        if self.capability is not None and self.capability < 0:
            raise ValueError(f"capability was {self.capability}; expected None or a cap of at least 0")
        if self.lookahead_depth is not None and self.lookahead_depth < 1:
            raise ValueError(f"lookahead_depth was {self.lookahead_depth}; expected None or at least 1, the guess")
        if self.window is not None and self.window < 1:
            raise ValueError(f"window was {self.window}; expected None or at least 1 resolved branch")

    @property
    def budget(self) -> int:
        """Output tokens at the most; the last one needs no room in the target, for it is never an input."""
        if self.target_context is None:
            return self.max_tokens
        return min(self.max_tokens, self.target_context - len(self.prompt) + 1)

    @property
    def budget_reason(self) -> str:
        """Why an output that fills the budget ended."""
        return "length" if self.budget == self.max_tokens else "context"

    @property
    def addresses(self) -> Addressing:
        """Which address a draw has."""
        return self.addressing or addressing_of(self.rule)


LOOKAHEAD_ON = Adaptive()
NOTHING_COUNTED = Statistics()


class Resolution(NamedTuple):
    """The outcome of a round on copies: nothing in it is true of the request before it is installed.

    Attributes:
        accepted: Proposals that the acceptance rule took.
        candidates: Those proposals and the token that the target supplied.
        emitted: The candidates up to the first terminal one.
        finish: Why the output ends there, or None.
        matched: Whether the bonus equals the branch's guess; None where the two do not meet.
        branch: What becomes of the branch: `none`, `promoted` or `dropped`.
        consumed: 1 if the guess became the bonus.
        reused: Branch tokens that start the next block.
        discarded: Branch tokens thrown away.
        depth: The clip of the next round.
        clip: What bound it.
        requested: K asked for in the next round.
        adaptive: The lookahead switch behind the round.
    """

    accepted: int
    candidates: Tokens
    emitted: Tokens
    finish: str | None
    matched: bool | None
    branch: str = "none"
    consumed: int = 0
    reused: int = 0
    discarded: int = 0
    depth: int = 0
    clip: str = ""
    requested: int = 0
    adaptive: Adaptive = LOOKAHEAD_ON

    @property
    def is_replaced(self) -> bool:
        """Whether the target's token replaces a rejected proposal."""
        return len(self.candidates) == self.accepted + 1

    @property
    def kept(self) -> int:
        """Verified inputs that stay in the target cache: as many as tokens were emitted."""
        return len(self.emitted)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Request:
    """One request.

    Attributes:
        settings: What it was opened with.
        phase: Where it stands.
        stage: How far its resolution has come.
        rows: The target cache, as the tokens it has taken as inputs.
        output: Committed output tokens.
        published: Output tokens that the reader has seen.
        finish: Why it ended.
        cancelling: Whether a callback asked to cancel it.
        requested: K asked for in this round.
        depth: The clip of this round.
        clip: What bound it.
        block: Proposals of this round.
        reused: How many of them a promoted branch supplied.
        ended: Whether the grammar is complete behind the last proposal.
        reach: Tokens between the last target state the drafter read and the block's first proposal; grows only where
            a branch was promoted, and matters only to drafters that read hidden states.
        frontier: Tokens that the drafter's frontier stands behind: committed ones and the block.
        planned: Tokens that the round's branch plans for; 0 without one.
        branch: Tokens of the branch.
        clone: Tokens that the branch's own frontier stands behind; 0 without one.
        resolution: The outcome of the round, on copies.
        adaptive: The lookahead switch.
        memory: What is known about addresses that may be read again.
        statistics: The counters, where the settings ask for them.
        ledger: Addresses that decided committed tokens, where the settings ask for them.
    """

    settings: Settings
    phase: Phase = Phase.PREFILL
    stage: Stage = Stage.IDLE
    rows: Tokens = ()
    output: Tokens = ()
    published: int = 0
    finish: str | None = None
    cancelling: bool = False
    requested: int = 0
    depth: int = 0
    clip: str = ""
    block: Tokens = ()
    reused: int = 0
    ended: bool = False
    reach: int = 0
    frontier: int = 0
    planned: int = 0
    branch: Tokens = ()
    clone: int = 0
    resolution: Resolution | None = None
    adaptive: Adaptive = LOOKAHEAD_ON
    memory: Memory = ()
    statistics: Statistics = NOTHING_COUNTED
    ledger: tuple[Address, ...] = ()

    @property
    def committed(self) -> Tokens:
        """Prompt and output."""
        return self.settings.prompt + self.output

    @property
    def remaining(self) -> int:
        """Output tokens left in the budget."""
        return self.settings.budget - len(self.output)
