"""How many proposals a round may carry, and what bound the number."""

from __future__ import annotations

from eredu_spec.request import Settings
from eredu_spec.sites import obeys


@obeys("draft.clip", "capability.validated-cap")
def clip(settings: Settings, requested: int, emitted: int) -> tuple[int, str]:
    """The proposals of a round that starts behind `emitted` output tokens, and the first limit that binds.

    The target takes all k + 1 rows as inputs, the drafter all but the last proposal. A single committed token is still
    to be fed, so there is no hidden state yet.
    """
    committed = len(settings.prompt) + emitted
    limits = [("request", requested)]
    if settings.capability is not None:
        limits.append(("capability", settings.capability))
    limits.append(("budget", settings.max_tokens - emitted - 1))
    if settings.target_context is not None:
        limits.append(("target-context", settings.target_context - committed))
    if settings.drafter_context is not None:
        limits.append(("drafter-context", settings.drafter_context - committed + 1))
    if settings.needs_hidden and committed == 1:
        limits.append(("hidden-state", 0))
    name, limit = min(limits, key=lambda pair: pair[1])
    return max(0, limit), name
