"""What the scheduler holds an executor to: counts that, if wrong, would break the budget or the caches silently."""

from __future__ import annotations

from collections.abc import Sequence

from eredu.contract.errors import EreduError
from eredu.contract.executor import CommitPlan, DraftBlock, VerificationOutcome


# rule: lookahead.drafted-whole, constraints.drafting-stops-at-completion, draft.clip
def check_block(what: str, block: DraftBlock, wanted: int) -> None:
    """Check a drafted block or branch. Raises `EreduError` unless it has `wanted` tokens or ends with the grammar."""
    if block.count > wanted or (block.count < wanted and not block.at_grammar_end):
        raise EreduError(
            f"the executor drafted a {what} of {block.count} tokens where {wanted} were asked for; only the end of the "
            "grammar may make it shorter, and nothing may make it longer"
        )


def check_entries(members: int, entries: Sequence[object]) -> None:
    """Check what submitting a group gave. Raises `EreduError` unless every member has its entry."""
    if len(entries) != members:
        raise EreduError(
            f"the executor answered a group of {members} with {len(entries)} entries; expected one a member, in order"
        )


def check_outcome(block: DraftBlock, outcome: VerificationOutcome) -> None:
    """Check a verification against its block. Raises `EreduError` if it is the outcome of another one."""
    if len(outcome.proposals) != block.count or not 0 <= outcome.accepted <= block.count:
        raise EreduError(
            f"the executor verified {len(outcome.proposals)} proposals and accepted {outcome.accepted} of a block that "
            f"has {block.count}"
        )


def check_promotion(plan: CommitPlan, promoted: DraftBlock | None) -> None:
    """Check what a commit gave back. Raises `EreduError` unless it is the promotion that was planned."""
    count = None if promoted is None else promoted.count
    if count != plan.promoted:
        raise EreduError(
            f"the commit planned to promote {plan.promoted} proposals and the executor returned {count} "
            "(None is no block at all)"
        )
