"""The commit: the target cache keeps what was emitted, the request's state is installed, its events are published."""

from __future__ import annotations

from collections.abc import Iterator

from eredu_spec.addressing import Addressing
from eredu_spec.drafting import ONE, Move
from eredu_spec.draws import forget
from eredu_spec.lookahead import carried
from eredu_spec.phases import Phase, Stage
from eredu_spec.randomness import Address
from eredu_spec.request import Request, Resolution
from eredu_spec.round_statistics import of_round
from eredu_spec.sites import obeys
from eredu_spec.state import evolve
from eredu_spec.statistics import added
from eredu_spec.terminal import GRAMMAR


@obeys("commit.one-number", "rollback.exact-length", "rollback.exact-state")
def commit(request: Request) -> Iterator[Move]:
    """Keep as many of the verified inputs as tokens were emitted, and roll the rest back."""
    resolution = _resolution(request)
    rows = rolled_back(request, resolution.kept)
    yield "commit.one-number", ONE, evolve(request, stage=Stage.COMMITTED, rows=rows)


@obeys("rollback.exact-length")
def rolled_back(request: Request, kept: int) -> tuple[int, ...]:
    """The target cache without the verified inputs behind the first `kept`."""
    verified = len(request.block) + 1
    return request.rows[: len(request.rows) - verified + kept]


@obeys("commit.order", "commit.terminal-token-committed", "statistics.committed-rounds-only", "commit.on-copies")
def install(request: Request) -> Iterator[Move]:
    """Make the copies the request's state: output, statistics, lookahead switch, and the start of the next block."""
    resolution, settings = _resolution(request), request.settings
    block, reach = carried(request, resolution)
    statistics, ledger = request.statistics, request.ledger
    if settings.counts:
        statistics = added(statistics, of_round(request, resolution))
        ledger += consumed(request, resolution)
    output = request.output + resolution.emitted
    conditions = settings.model.conditions(output + block[:-1], block[-1]) if block else 0
    after = evolve(
        request,
        stage=Stage.INSTALLED,
        output=output,
        finish=resolution.finish,
        requested=resolution.requested,
        depth=resolution.depth,
        clip=resolution.clip,
        block=block,
        reused=len(block),
        ended=bool(conditions & GRAMMAR),
        reach=reach,
        frontier=len(settings.prompt) + len(output) + len(block),
        planned=0,
        branch=(),
        clone=0,
        adaptive=resolution.adaptive,
        memory=() if resolution.finish else forget(request.memory, len(output)),
        statistics=statistics,
        ledger=ledger,
    )
    yield "commit.order", ONE, after


@obeys("events.after-commit", "events.one-publication-a-commit", "events.append-only", "promotion.top-up")
def publish(request: Request) -> Iterator[Move]:
    """Show the committed tokens, and go on to the next round or to the end."""
    after = evolve(request, stage=Stage.IDLE, phase=_following(request), published=len(request.output), resolution=None)
    if request.finish is not None:
        after = evolve(after, cancelling=False)
    yield "events.after-commit", ONE, after


def _following(request: Request) -> Phase:
    if request.finish is not None:
        return Phase.COMPLETED
    is_full = request.reused > 0 and len(request.block) == request.depth
    return Phase.READY_TO_SUBMIT if is_full else Phase.READY_TO_DRAFT


def _resolution(request: Request) -> Resolution:
    assert request.resolution is not None, f"stage {request.stage.name} needs the outcome of its round"
    return request.resolution


@obeys("randomness.address-once", "randomness.roles-disjoint", "randomness.greedy-reads-none")
def consumed(request: Request, resolution: Resolution) -> tuple[Address, ...]:
    """Addresses that decided the tokens emitted: of each its proposal and coin, or the target's own draw."""
    settings = request.settings
    if settings.rule == "greedy":
        return ()
    start, addresses = len(request.output), settings.addresses
    read: list[Address] = []
    for index in range(len(resolution.emitted)):
        position = start + index
        is_proposal = index < len(request.block)
        if is_proposal:
            read += _judged(addresses, start, index, settings.rule)
        if index == resolution.accepted:
            read.append(addresses.residual(position) if is_proposal else addresses.target(position))
    return tuple(dict.fromkeys(read))


def _judged(addresses: Addressing, start: int, index: int, rule: str) -> tuple[Address, ...]:
    proposal = addresses.proposal(start, index)
    return (proposal,) if rule == "coupled" else (proposal, addresses.coin(start, index))
