"""The machine: one pure function from a state to its weighted successors.

Every use goes through it: exhaustive exploration, the exact output law, the replay of traces, and the model inside
stateful tests. What an action makes of a request depends on that request alone; this file says whose turn it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import prod

from eredu_spec import cancellation, committing, drafting, lookahead, verification
from eredu_spec.drafting import Move
from eredu_spec.phases import BRANCHING, SUBMITTED, Phase, Stage
from eredu_spec.request import Request
from eredu_spec.scope import Action, Scope
from eredu_spec.sites import obeys
from eredu_spec.state import State

Edge = tuple[str, Fraction, State]
Group = tuple[Request, ...]

BY_PHASE: dict[Phase, Action] = {
    Phase.PREFILL: drafting.prefill,
    Phase.READY_TO_DRAFT: drafting.draft,
    Phase.READY_TO_SUBMIT: verification.submit,
    Phase.VERIFICATION_IN_FLIGHT: verification.wait,
    Phase.LOOKAHEAD_DRAFTING: lookahead.draft_branch,
    Phase.LOOKAHEAD_READY: verification.wait,
}
"""What a turn does with a request, by where it stands."""

BY_STAGE: dict[Stage, Action] = {
    Stage.WAITED: verification.resolve,
    Stage.RESOLVED: committing.commit,
    Stage.COMMITTED: committing.install,
    Stage.INSTALLED: committing.publish,
}
"""The next step of a resolution, by how far it has come."""


@obeys("scheduling.turn-uninterrupted", "scheduling.requests-independent", "placement.changes-no-token")
def successors(state: State, scope: Scope) -> list[Edge]:
    """The states that may follow, each with the rule that leads there and its weight.

    Weights are probabilities where a table model draws, and 1 for a choice: which request acts, who joins it, what
    the environment does, and every outcome of the `Structure` model.
    """
    for request in state:
        if request.phase is Phase.RESOLUTION:
            return _resolution_goes_on(state, scope, request)
    marked = [request for request in state if request.cancelling]
    if marked:
        return _each(state, scope, cancellation.cancel, marked)
    edges = _turns(state, scope)
    if scope.cancellations:
        edges += _each(state, scope, cancellation.cancel, state)
    return edges


def _resolution_goes_on(state: State, scope: Scope, request: Request) -> list[Edge]:
    """The next step of a resolution, which no other request's turn interrupts."""
    edges = _in_place(state, request, _outcomes(request, BY_STAGE[request.stage], scope))
    if scope.callbacks and request.stage is Stage.INSTALLED:
        edges += _each(state, scope, cancellation.mark, state)
    elif scope.cancellations and request.stage is Stage.WAITED:
        edges += _each(state, scope, cancellation.cancel, (request,))
    return edges


@obeys("scheduling.ring")
def _turns(state: State, scope: Scope) -> list[Edge]:
    """Every turn that may be taken; where the ring rules, only that of the first request that can act."""
    edges: list[Edge] = []
    for request in state:
        edges += _turn(state, scope, request)
        if edges and scope.ring:
            break
    return edges


def _turn(state: State, scope: Scope, request: Request) -> list[Edge]:
    """The turns that serve a request, alone or first of a group."""
    if request.phase is Phase.READY_TO_SUBMIT:
        return [edge for group in groups(state, scope, request) for edge in _submissions(state, scope, group)]
    action = BY_PHASE.get(request.phase)
    if action is None:
        return []
    if request.phase is Phase.VERIFICATION_IN_FLIGHT and request.planned and _may_branch(state, scope):
        action = lookahead.begin
    outcomes = _outcomes(request, action, scope)
    if scope.ring:
        return [(rule, weight, _served(state, (request,), (after,))) for rule, weight, after in outcomes]
    return _in_place(state, request, outcomes)


@obeys("scheduling.ring", "scheduling.in-flight-bound")
def groups(state: State, scope: Scope, first: Request) -> Iterator[Group]:
    """The groups that may be submitted with `first` in front, which is ready to submit.

    The ring takes everybody who is ready and stands behind it, as far as the bounds allow. Without the ring every
    choice among them is a group.
    """
    most = _room(state, scope) if scope.max_group is None else min(_room(state, scope), scope.max_group)
    others = [other for other in state[state.index(first) + 1 :] if other.phase is Phase.READY_TO_SUBMIT]
    if scope.ring and most >= 1:
        yield (first, *others)[:most]
        return
    for size in range(1, most + 1):
        for company in combinations(others, size - 1):
            yield first, *company


def _room(state: State, scope: Scope) -> int:
    """How many verifications more may be in flight."""
    return scope.max_in_flight - sum(request.phase in SUBMITTED for request in state)


@obeys("lookahead.bounded")
def _may_branch(state: State, scope: Scope) -> bool:
    """Whether there is a place among the branches."""
    return sum(request.phase in BRANCHING for request in state) < scope.max_branches


@obeys("scheduling.group-changes-nothing", "scheduling.members-end-alone", "scheduling.in-flight-bound")
def _submissions(state: State, scope: Scope, group: Group) -> Iterator[Edge]:
    """One submission of a group: each member is submitted, or fails, as it would alone and whatever the others do."""
    submit = BY_PHASE[Phase.READY_TO_SUBMIT]
    for outcomes in product(*(_outcomes(member, submit, scope) for member in group)):
        moved = [after for _, _, after in outcomes]
        following = _served(state, group, moved) if scope.ring else _exchanged(state, group, moved)
        yield _rule_of(outcomes), prod((weight for _, weight, _ in outcomes), start=Fraction(1)), following


def _rule_of(outcomes: Sequence[Move]) -> str:
    """The rule that a submission shows: its member's own where there is one, else what holds among several."""
    if len(outcomes) == 1:
        return outcomes[0][0]
    is_whole = all(after.finish is None for _, _, after in outcomes)
    return "scheduling.group-changes-nothing" if is_whole else "scheduling.members-end-alone"


@obeys("commit.failure-changes-nothing")
def _outcomes(request: Request, action: Action, scope: Scope) -> tuple[Move, ...]:
    """What an action may make of the request, its failure among it."""
    moves = scope.moves(action, request)
    return moves + scope.moves(cancellation.fail, request) if scope.failures else moves


def _each(state: State, scope: Scope, action: Action, requests: Iterable[Request]) -> list[Edge]:
    """What the environment may do to each of the requests."""
    return [edge for request in requests for edge in _in_place(state, request, scope.moves(action, request))]


def _in_place(state: State, request: Request, moves: Iterable[Move]) -> list[Edge]:
    """The state behind each move of one request, with nobody's place changed."""
    place = state.index(request)
    before, behind = state[:place], state[place + 1 :]
    return [(rule, weight, (*before, after, *behind)) for rule, weight, after in moves]


def _exchanged(state: State, group: Group, moved: Sequence[Request]) -> State:
    """The state with each member become what it moved to, and nobody's place changed."""
    becomes = dict(zip(group, moved, strict=True))
    return tuple(becomes.get(request, request) for request in state)


@obeys("scheduling.ring")
def _served(state: State, group: Group, moved: Sequence[Request]) -> State:
    """The state behind a turn of the ring: whoever was served stands at the back, the next one in front."""
    place = state.index(group[0])
    rest = (request for request in state[place + 1 :] + state[:place] if request not in group)
    return (*rest, *moved)
