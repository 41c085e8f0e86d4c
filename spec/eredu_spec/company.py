"""What becomes of the members of a group: followed from each submission to the end of the members' rounds.

Nothing in a state remembers who was submitted together, because nothing may depend on it. So groups are followed here,
from outside, and only where somebody looks for what must sometimes happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from eredu_spec.explorer import Exploration
from eredu_spec.phases import LIVE, SUBMITTED, Phase, Stage
from eredu_spec.request import Request
from eredu_spec.scope import Scope
from eredu_spec.state import State, moved
from eredu_spec.successors import successors


class Fate(NamedTuple):
    """What became of one member of a group.

    Attributes:
        number: Number of the request.
        accepted: Proposals that its verification accepted; None where it was not resolved.
        end: `failed at submission`, `failed`, `cancelled`, `completed`, or `goes on` behind its publication; empty
            while it is in flight.
    """

    number: int
    accepted: int | None = None
    end: str = ""


Group = tuple[Fate, ...]


def fates(exploration: Exploration) -> Iterator[Group]:
    """What may become of the members of each group, once for each way in which it may fall."""
    known: set[tuple[State, Group]] = set()
    told: set[Group] = set()
    for edge in exploration.edges():
        if len(edge.movers) == 1:
            continue
        todo = [(edge.after, tuple(_at_submission(after) for _, after in edge.movers))]
        while todo:
            node = todo.pop()
            if node in known:
                continue
            known.add(node)
            state, group = node
            if all(fate.end for fate in group):
                if group not in told:
                    told.add(group)
                    yield group
                continue
            todo += _followed(state, group, exploration.scope)


def _at_submission(after: Request) -> Fate:
    return Fate(after.settings.number, end="failed at submission" if after.finish == "failed" else "")


def _followed(state: State, group: Group, scope: Scope) -> Iterator[tuple[State, Group]]:
    """The states behind the moves of members still in flight, each with the fates behind it."""
    for _, _, after in successors(state, scope):
        movers = {request.settings.number: request for _, request in moved(state, after)}
        flying = {fate.number for fate in group if not fate.end}
        if movers.keys() <= flying:
            yield after, tuple(_behind(fate, movers[fate.number]) if fate.number in movers else fate for fate in group)


def _behind(fate: Fate, after: Request) -> Fate:
    """The fate behind a move of its member."""
    if after.stage is Stage.RESOLVED and after.resolution is not None:
        fate = fate._replace(accepted=after.resolution.accepted)
    if after.phase in SUBMITTED:
        return fate
    if after.phase in LIVE:
        return fate._replace(end="goes on")
    return fate._replace(end="completed" if after.phase is Phase.COMPLETED else str(after.finish))
