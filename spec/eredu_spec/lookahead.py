"""Lookahead: a branch is drafted while the verification runs, and resolved when the bonus is known."""

from __future__ import annotations

from collections.abc import Iterator

from eredu_spec.adaptive import control_of
from eredu_spec.clipping import clip
from eredu_spec.drafting import ONE, Drafted, Move
from eredu_spec.draws import Tokens
from eredu_spec.phases import Phase
from eredu_spec.request import Request, Resolution
from eredu_spec.sites import obeys
from eredu_spec.state import evolve
from eredu_spec.terminal import GRAMMAR


@obeys("lookahead.planned-length", "lookahead.exact-promotion-only", "adaptive.disable-when-unpaid")
def planned_length(request: Request) -> int:
    """Tokens that the branch of the request's block plans for; 0 where none is worth drafting.

    It supposes the only outcome in which the branch can live: everything accepted, and a bonus that does not end the
    output. A branch of one token would only guess the bonus.
    """
    settings, count = request.settings, len(request.block)
    if settings.lookahead_depth is None or not settings.exact_promotion or not request.adaptive.enabled:
        return 0
    if count == 0 or request.ended or request.remaining - count - 1 < 1:
        return 0
    following, _ = clip(settings, request.requested, len(request.output) + count + 1)
    length = min(settings.lookahead_depth, 1 + following)
    return length if length >= 2 else 0


@obeys("lookahead.while-in-flight", "lookahead.bounded")
def begin(request: Request) -> Iterator[Move]:
    """Take a place among the branches."""
    yield "lookahead.while-in-flight", ONE, evolve(request, phase=Phase.LOOKAHEAD_DRAFTING)


@obeys("lookahead.clone-of-frontier", "lookahead.drafted-whole")
def draft_branch(request: Request) -> Iterator[Move]:
    """Draft the branch whole, from a clone of the frontier, fewer tokens only where the grammar is complete."""
    for run in _branch_runs(request):
        yield (
            "lookahead.drafted-whole",
            run.weight,
            evolve(
                request,
                phase=Phase.LOOKAHEAD_READY,
                branch=run.tokens,
                clone=request.frontier + len(run.tokens),
                memory=run.memory,
            ),
        )


@obeys("randomness.by-round", "randomness.by-position")
def _branch_runs(request: Request) -> list[Drafted]:
    """The guess at the addresses of this round, the tokens behind it at those of the next."""
    settings, count, start = request.settings, len(request.block), len(request.output)
    model, addresses = settings.model, settings.addresses
    runs = [Drafted((), ended=False, weight=ONE, memory=request.memory)]
    for index in range(request.planned):
        address = addresses.proposal(start + count + 1, index - 1) if index else addresses.proposal(start, count)
        longer = []
        for run in runs:
            if run.ended:
                longer.append(run)
                continue
            proposed = request.block + run.tokens
            reach = request.reach + count + index
            for token, weight, memory in model.propose(request, proposed, reach, run.memory, address):
                ended = bool(model.conditions(request.output + proposed, token) & GRAMMAR)
                longer.append(Drafted((*run.tokens, token), ended, run.weight * weight, memory))
        runs = longer
    return runs


@obeys(
    "promotion.full-acceptance-and-equal-bonus",
    "promotion.consume-one-reuse-the-rest",
    "lookahead.drop-whole",
    "bonus.from-target",
    "adaptive.window",
)
def settled(request: Request, resolution: Resolution) -> tuple[Resolution, str | None]:
    """The resolution with the fate of the branch and the next round's clip, and the rule that decided the former."""
    requested, depth, reason = 0, 0, ""
    if resolution.finish is None:
        requested = control_of(request).requested(request, resolution)
        depth, reason = clip(request.settings, requested, len(request.output) + len(resolution.emitted))
    planned = resolution._replace(depth=depth, clip=reason, requested=requested, adaptive=request.adaptive)
    return _resolved_branch(request, planned) if request.branch else (planned, None)


def _resolved_branch(request: Request, resolution: Resolution) -> tuple[Resolution, str]:
    """The resolution with the fate of the branch, and the rule that decided it."""
    length = len(request.branch)
    if resolution.matched:
        name = "promotion.full-acceptance-and-equal-bonus"
        reused = min(length - 1, resolution.depth)
        settled = resolution._replace(branch="promoted", consumed=1, reused=reused, discarded=length - 1 - reused)
    else:
        name = "lookahead.drop-whole"
        settled = resolution._replace(branch="dropped", discarded=length)
    adaptive = control_of(request).lookahead(request, settled)
    if request.adaptive.enabled and not adaptive.enabled:
        name = "adaptive.disable-when-unpaid"
    return settled._replace(adaptive=adaptive), name


@obeys("rollback.drafter-follows", "promotion.top-up")
def carried(request: Request, resolution: Resolution) -> tuple[Tokens, int]:
    """The promoted start of the next block, and the reach of its first proposal."""
    if resolution.branch != "promoted":
        return (), 0
    return request.branch[1 : 1 + resolution.reused], request.reach + len(request.block) + 1
