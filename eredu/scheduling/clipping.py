"""How many proposals a round may carry."""

from __future__ import annotations

from dataclasses import dataclass

from eredu.contract.executor import ExecutorTraits
from eredu.contract.statistics import ClipReason


@dataclass(frozen=True, slots=True)
class Depth:
    """Proposals of one round, and which of the limits bound them."""

    count: int
    reason: ClipReason


# rule: draft.clip, capability.validated-cap, randomness.control-ignores-redrawable
def clip_depth(requested: int, traits: ExecutorTraits, committed: int, remaining: int) -> Depth:
    """Clip the proposals of a round.

    Args:
        requested: K of the request.
        traits: Limits of the executor.
        committed: Tokens of prompt and output so far.
        remaining: Output tokens left of `max_tokens`.

    A drafter that needs a hidden state has none behind a single committed token, which is still to be fed. A round of
    k proposals feeds k + 1 rows to the target and emits up to k + 1 tokens; the drafter is fed all but the
    last proposal. Ties name the first limit in the order of `ClipReason`.
    """
    limits = {
        ClipReason.REQUEST: requested,
        ClipReason.CAPABILITY: traits.max_proposals,
        ClipReason.BUDGET: remaining - 1,
        ClipReason.TARGET_CONTEXT: traits.target_context - committed,
    }
    if traits.drafter_context is not None:
        limits[ClipReason.DRAFTER_CONTEXT] = traits.drafter_context - committed + 1
    if traits.needs_hidden and committed == 1:
        limits[ClipReason.HIDDEN_STATE] = 0
    reason = min(limits, key=lambda name: limits[name])
    return Depth(max(0, limits[reason]), reason)
