"""Cancellation and failure: a request leaves between two commits, and nothing of the open round stays."""

from __future__ import annotations

from collections.abc import Iterator

from eredu_spec.committing import rolled_back
from eredu_spec.drafting import ONE, Move
from eredu_spec.phases import DROPPABLE, LIVE, SUBMITTED, UNINSTALLED, Phase, Stage
from eredu_spec.request import Request
from eredu_spec.sites import obeys
from eredu_spec.state import evolve


@obeys(
    "cancellation.nothing-submitted-at-once",
    "cancellation.submitted-waits",
    "cancellation.leaves-no-trace",
    "events.one-publication-a-commit",
    "scheduling.members-end-alone",
)
def cancel(request: Request) -> Iterator[Move]:
    """End a live request that is not between its commit and its publication."""
    if request.phase not in LIVE or request.stage not in DROPPABLE:
        return
    if request.phase in SUBMITTED:
        yield "cancellation.submitted-waits", ONE, _dropped(request, rolled_back(request, 0), "cancelled")
    else:
        yield "cancellation.nothing-submitted-at-once", ONE, _dropped(request, request.rows, "cancelled")


@obeys("cancellation.from-callback")
def mark(request: Request) -> Iterator[Move]:
    """Note a cancellation asked for by a callback; it waits until the events of the commit are out."""
    if request.phase in LIVE and not request.cancelling:
        yield "cancellation.from-callback", ONE, evolve(request, cancelling=True)


@obeys("commit.failure-changes-nothing", "scheduling.members-end-alone")
def fail(request: Request) -> Iterator[Move]:
    """End a request whose action raised before the state was installed; its caches are released."""
    if request.phase in LIVE and request.stage in UNINSTALLED:
        yield "commit.failure-changes-nothing", ONE, _dropped(request, (), "failed")


def _dropped(request: Request, rows: tuple[int, ...], reason: str) -> Request:
    """The request without its round: block, branch, outcome and what was known of its randomness are gone."""
    return evolve(
        request,
        phase=Phase.CANCELLED,
        stage=Stage.IDLE,
        rows=rows,
        finish=reason,
        cancelling=False,
        depth=0,
        clip="",
        block=(),
        reused=0,
        ended=False,
        reach=0,
        frontier=len(request.committed),
        planned=0,
        branch=(),
        clone=0,
        resolution=None,
        memory=(),
    )
