"""Lookahead branches: when one is drafted, what becomes of it, and when a request stops drafting them.

Every decision here reads resolved outcomes and planned lengths. None reads a clock, and none reads a proposal that
may be drawn again at the same address.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eredu.contract.executor import ExecutorTraits
from eredu.contract.statistics import BranchOutcome, BranchResolution
from eredu.scheduling.clipping import clip_depth


# rule: lookahead.planned-length, lookahead.exact-promotion-only
def planned_length(
    depth: int, limit: int, requested: int, traits: ExecutorTraits, committed: int, remaining: int
) -> int:
    """Tokens that the branch of a round plans for; 0 where none is worth drafting.

    Args:
        depth: Proposals of the round.
        limit: `GenerationOptions.branch_length` of the request.
        requested: K of the request.
        traits: Limits of the executor.
        committed: Tokens of prompt and output so far.
        remaining: Output tokens left of `max_tokens`.

    The plan supposes the only outcome in which the branch can live: all accepted, bonus not terminal. A branch of one
    token would only guess the bonus, so it is not drafted.
    """
    if depth == 0 or not traits.exact_promotion:
        return 0
    next_depth = clip_depth(requested, traits, committed + depth + 1, remaining - depth - 1).count
    length = min(limit, 1 + next_depth)
    return length if length >= 2 else 0


# rule: promotion.full-acceptance-and-equal-bonus, lookahead.drop-whole, bonus.from-target
def resolve_branch(drafted: int, next_depth: int, guess: int, bonus: int) -> BranchResolution:
    """Decide over a branch of `drafted` tokens whose parent was accepted whole and did not end the output.

    Args:
        drafted: Tokens of the branch, at least 1.
        next_depth: Proposals that the next round may carry.
        guess: The branch's first token.
        bonus: The bonus of the parent.
    """
    if guess != bonus:
        return BranchResolution(BranchOutcome.DROPPED, drafted, compared=True)
    # rule: promotion.consume-one-reuse-the-rest
    return BranchResolution(BranchOutcome.PROMOTED, drafted, min(drafted - 1, next_depth), compared=True)


@dataclass(frozen=True, slots=True)
class AdaptiveLookahead:
    """Sticky switch of one request's lookahead, decided at the end of each window of resolved branches.

    Attributes:
        window: Branches between two decisions; None never decides.
        enabled: Whether branches are drafted.
        resolved: Branches resolved in the current window.
        reused: Tokens reused in it.
        discarded: Tokens that its branches had planned for and did not get used.
    """

    window: int | None
    enabled: bool = True
    resolved: int = 0
    reused: int = 0
    discarded: int = 0

    # rule: adaptive.window, adaptive.planned-not-drawn, adaptive.no-clock, randomness.control-ignores-redrawable
    def observe(self, planned: int, branch: BranchResolution) -> AdaptiveLookahead:
        """State after one resolved branch that had planned for `planned` tokens."""
        if self.window is None:
            return self
        used = branch.consumed + branch.reused
        after = replace(
            self,
            resolved=self.resolved + 1,
            reused=self.reused + branch.reused,
            discarded=self.discarded + planned - used,
        )
        if after.resolved < self.window:
            return after
        # rule: adaptive.disable-when-unpaid
        pays = after.reused > 0 and after.discarded <= after.reused
        return AdaptiveLookahead(self.window, enabled=self.enabled and pays)
