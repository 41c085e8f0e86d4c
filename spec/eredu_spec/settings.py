"""What one request was opened with: fixed for its life, checked once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

from eredu_spec.acceptance import RULES
from eredu_spec.adaptive import Control
from eredu_spec.addressing import Addressing, addressing_of
from eredu_spec.randomness import Address
from eredu_spec.sites import obeys

if TYPE_CHECKING:
    from eredu_spec.draws import Memory
    from eredu_spec.state import Request

Tokens = tuple[int, ...]


class Draw(NamedTuple):
    """One way a draw can fall: the token, its probability, and what is then known about the randomness."""

    token: int
    weight: Fraction
    memory: Memory


class Outcome(NamedTuple):
    """One way a verification can fall.

    Attributes:
        accepted: Proposals that the acceptance rule took, from the first.
        candidates: The tokens to emit: those proposals, then the bonus or the replacement.
        matched: Whether the bonus equals the branch's guess; None where the two do not meet.
        weight: Probability, or 1 for a choice.
        memory: What is then known about the randomness.
    """

    accepted: int
    candidates: Tokens
    matched: bool | None
    weight: Fraction
    memory: Memory


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
        control: Decisions about lookahead and K.
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
    control: Control = field(default_factory=Control)
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
