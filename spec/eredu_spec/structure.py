"""The model for exploration and replay: tokens without identity, every shape of a round a free choice.

A token is the mask of the terminal conditions it meets, 0 for an ordinary one. Proposals stay hidden until a
verification reveals them, so that states which differ only in what nobody has read are one state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from eredu_spec.draws import Draw, Memory, Outcome, Tokens
from eredu_spec.randomness import Address
from eredu_spec.request import Request
from eredu_spec.sites import obeys
from eredu_spec.terminal import EOS, GRAMMAR, STOP, walk

ONE = Fraction(1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Structure:
    """Free choices.

    Attributes:
        terminal: Masks that an emitted token may have, besides 0.
        grammar: Whether a grammar may be complete behind a proposal.
        accepted: The only accepted length to consider where a block can have it; None considers every one.
    """

    terminal: tuple[int, ...] = (STOP, GRAMMAR, EOS, STOP | GRAMMAR | EOS)
    grammar: bool = True
    accepted: int | None = None

    def conditions(self, output: Tokens, token: int) -> int:  # noqa: ARG002
        """The token is its own mask."""
        return token

    def propose(
        self,
        request: Request,  # noqa: ARG002
        proposed: Tokens,  # noqa: ARG002
        reach: int,  # noqa: ARG002
        memory: Memory,
        address: Address,  # noqa: ARG002
    ) -> Iterator[Draw]:
        """A hidden token, or one behind which the grammar is complete."""
        yield Draw(0, ONE, memory)
        if self.grammar:
            yield Draw(GRAMMAR, ONE, memory)

    @obeys("verify.first-rejection-ends", "bonus.after-full-acceptance")
    def verify(self, request: Request) -> Iterator[Outcome]:
        """Every accepted length, every place and kind of the first terminal token, a bonus that matches or not."""
        lengths = range(len(request.block) + 1)
        if self.accepted is not None and self.accepted in lengths:
            lengths = range(self.accepted, self.accepted + 1)
        for accepted in lengths:
            for candidates in self._candidates(request, accepted):
                for matched in self._matches(request, accepted, candidates):
                    yield Outcome(accepted, candidates, matched, ONE, request.memory)

    def _candidates(self, request: Request, accepted: int) -> Iterator[Tokens]:
        """The tokens to emit, ordinary behind the first terminal one, which nobody will see."""
        proposed = [tuple(mask | token for mask in self._of_proposals()) for token in request.block[:accepted]]
        has_bonus = accepted < len(request.block) or not request.ended
        places = [*proposed, (0, *self.terminal)] if has_bonus else proposed
        for index, masks in enumerate(places):
            behind = (0,) * (len(places) - index - 1)
            for mask in dict.fromkeys(masks):
                if mask:
                    yield (0,) * index + (mask, *behind)
            if 0 not in masks:
                return
        yield (0,) * len(places)

    def _of_proposals(self) -> tuple[int, ...]:
        """Masks of a proposal; one that completes the grammar says so when it is proposed."""
        return (0, *(mask for mask in self.terminal if not mask & GRAMMAR))

    def _matches(self, request: Request, accepted: int, candidates: Tokens) -> tuple[bool | None, ...]:
        """Whether the bonus is the guess: a choice where both exist, are visible, and go on."""
        if not request.branch or accepted < len(request.block) or len(candidates) == accepted:
            return (None,)
        _, finish = walk(
            request.output, candidates, self.conditions, request.settings.budget, request.settings.budget_reason
        )
        if finish is not None:
            return (None,)
        return (False,) if request.branch[0] else (True, False)
