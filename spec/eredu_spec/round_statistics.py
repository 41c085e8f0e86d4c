"""The statistics of one committed round, which a request's add up."""

from __future__ import annotations

from eredu_spec.request import Request, Resolution
from eredu_spec.sites import obeys
from eredu_spec.statistics import Statistics


@obeys("statistics.proposals-balance", "statistics.emitted-balance", "statistics.lookahead-balance")
def of_round(request: Request, resolution: Resolution) -> Statistics:
    """The statistics of the round that `resolution` resolves, taken alone."""
    drafted, emitted = len(request.block), len(resolution.emitted)
    accepted = min(resolution.accepted, emitted)
    target_tokens = emitted - accepted
    rejected = int(target_tokens == 1 and resolution.accepted < drafted)
    return Statistics(
        emitted=emitted,
        target_tokens=target_tokens,
        target_rows=drafted + 1,
        rounds=1,
        drafted=drafted,
        accepted=accepted,
        rejected=rejected,
        unexamined=drafted - accepted - rejected,
        lookahead_blocks=int(resolution.branch != "none"),
        lookahead_promoted=int(resolution.branch == "promoted"),
        lookahead_drafted=len(request.branch),
        lookahead_consumed=resolution.consumed,
        lookahead_reused=resolution.reused,
        lookahead_discarded=resolution.discarded,
        bonus_matches=int(resolution.matched is True),
        bonus_mismatches=int(resolution.matched is False),
        lookahead_disabled=int(request.adaptive.enabled and not resolution.adaptive.enabled),
    )
