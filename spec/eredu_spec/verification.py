"""Verification: the block is submitted, waited for, and resolved on copies."""

from __future__ import annotations

from collections.abc import Iterator

from eredu_spec.drafting import ONE, Move
from eredu_spec.lookahead import planned_length, settled
from eredu_spec.phases import Phase, Stage
from eredu_spec.request import Request, Resolution
from eredu_spec.sites import obeys
from eredu_spec.state import evolve
from eredu_spec.terminal import walk


@obeys("verify.leading-token-first", "scheduling.in-flight-bound")
def submit(request: Request) -> Iterator[Move]:
    """Start the verification: the target takes the last committed token and the proposals as inputs."""
    inputs = (request.committed[-1], *request.block)
    after = evolve(
        request,
        phase=Phase.VERIFICATION_IN_FLIGHT,
        rows=request.rows + inputs,
        planned=planned_length(request),
    )
    yield "verify.leading-token-first", ONE, after


@obeys("placement.wait-before-read", "placement.producer-before-consumer", "commit.order")
def wait(request: Request) -> Iterator[Move]:
    """Wait for the device; before that, nothing of the verification may be read."""
    yield "placement.wait-before-read", ONE, evolve(request, phase=Phase.RESOLUTION, stage=Stage.WAITED)


@obeys("commit.on-copies", "verify.first-rejection-ends", "bonus.after-full-acceptance")
def resolve(request: Request) -> Iterator[Move]:
    """Decide the accepted length, the target's token, and where the output ends, without moving anything."""
    settings, model = request.settings, request.settings.model
    for accepted, candidates, matched, weight, memory in model.verify(request):
        emitted, finish = walk(request.output, candidates, model.conditions, settings.budget, settings.budget_reason)
        outcome = Resolution(accepted, candidates, emitted, finish, matched if finish is None else None)
        resolution, branch_rule = settled(request, outcome)
        after = evolve(request, stage=Stage.RESOLVED, resolution=resolution, memory=memory)
        yield branch_rule or _name(request, resolution), weight, after


def _name(request: Request, resolution: Resolution) -> str:
    """The rule that shaped the outcome."""
    if resolution.emitted != resolution.candidates:
        return "terminal.nothing-behind"
    if resolution.accepted < len(request.block):
        return "verify.first-rejection-ends"
    return "bonus.after-full-acceptance"
