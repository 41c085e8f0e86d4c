"""How far a request has come: the measure that every step raises."""

from __future__ import annotations

from eredu_spec.phases import LIVE, Phase, Stage
from eredu_spec.request import Request
from eredu_spec.sites import obeys

_PLACE_IN_LIFE = {phase: place for place, phase in enumerate(Phase)}
_PLACE_IN_RESOLUTION = {stage: place for place, stage in enumerate(Stage)}


@obeys("scheduling.every-request-ends")
def progress(request: Request) -> tuple[int, ...]:
    """Tokens told, then the place in the round: each step raises it, and the budget bounds it.

    Phases and stages count in the order in which they are defined, which is the order of a life and of a resolution.
    """
    if request.phase not in LIVE:
        return (request.settings.budget + 1,)
    done = request.published if request.phase is Phase.RESOLUTION else len(request.output)
    place, stage = _PLACE_IN_LIFE[request.phase], _PLACE_IN_RESOLUTION[request.stage]
    return done, place, stage, len(request.rows), int(request.cancelling)
