"""How many proposals a round may carry, how long a branch may plan to be, and how many tokens a request may have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from eredu_reference.errors import RequestError
from eredu_reference.requests import Request


class ClipReason(StrEnum):
    """What bound the proposals of a round; ties name the first."""

    REQUEST = "request"
    CAPABILITY = "capability"
    BUDGET = "budget"
    TARGET_CONTEXT = "target-context"
    DRAFTER_CONTEXT = "drafter-context"
    GRAMMAR = "grammar"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All that bounds a round.

    Attributes:
        requested: K of the request.
        capability: The drafter's cap.
        remaining: Output tokens left of `max_tokens`.
        target_context: Inputs that the target can take.
        drafter_context: Inputs that the drafter can take.
        committed: Tokens of prompt and output.
    """

    requested: int
    capability: int
    remaining: int
    target_context: int
    drafter_context: int
    committed: int


@dataclass(frozen=True)
class Clip:
    """Proposals of a round, and what bound them."""

    count: int
    reason: ClipReason


def clip(limits: Limits) -> Clip:
    """Clip k: a round feeds k + 1 inputs to the target and k - 1 proposals to the drafter, and emits up to k + 1."""
    candidates = [
        (limits.requested, ClipReason.REQUEST),
        (limits.capability, ClipReason.CAPABILITY),
        (limits.remaining - 1, ClipReason.BUDGET),
        (limits.target_context - limits.committed, ClipReason.TARGET_CONTEXT),
        (limits.drafter_context - limits.committed + 1, ClipReason.DRAFTER_CONTEXT),
    ]
    smallest = min(count for count, _ in candidates)
    reason = next(reason for count, reason in candidates if count == smallest)
    return Clip(max(0, smallest), reason)


def plan_branch(limits: Limits, count: int, branch_length: int) -> int:
    """Tokens that the branch of a round of `count` proposals plans for; 0 where none is worth drafting.

    The plan supposes that all proposals are accepted and the bonus does not end the output: a branch lives only then.
    """
    after = replace(limits, committed=limits.committed + count + 1, remaining=limits.remaining - count - 1)
    if count == 0:
        return 0
    planned = min(branch_length, 1 + clip(after).count)
    return planned if planned >= 2 else 0


def budget_of(request: Request, target_context: int) -> tuple[int, bool]:
    """Output tokens of a request at the most, and whether the target's context, not the caller, sets that number."""
    room = target_context - len(request.prompt) + 1
    if room < 1:
        raise RequestError(f"the prompt has {len(request.prompt)} tokens and the context {target_context}: shorten it")
    return min(request.max_tokens, room), room < request.max_tokens
