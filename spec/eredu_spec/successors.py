"""The machine: one pure function from a state to its weighted successors.

Every use goes through it: exhaustive exploration, the exact output law, the replay of traces, and the model inside
stateful tests. The scope remembers the moves of one request, for requests share nothing but two bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from eredu_spec import cancellation, committing, drafting, lookahead, verification
from eredu_spec.drafting import Move
from eredu_spec.phases import Phase, Stage
from eredu_spec.scope import Scope
from eredu_spec.sites import obeys
from eredu_spec.state import Request, State

Edge = tuple[str, Fraction, State]
Action = Callable[[Request], Iterator[Move]]

BY_PHASE: dict[Phase, Action] = {
    Phase.PREFILL: drafting.prefill,
    Phase.READY_TO_DRAFT: drafting.draft,
    Phase.READY_TO_SUBMIT: verification.submit,
    Phase.VERIFICATION_IN_FLIGHT: verification.wait,
    Phase.LOOKAHEAD_DRAFTING: lookahead.draft_branch,
    Phase.LOOKAHEAD_READY: verification.wait,
}
BY_STAGE: dict[Stage, Action] = {
    Stage.WAITED: verification.resolve,
    Stage.RESOLVED: committing.commit,
    Stage.COMMITTED: committing.install,
    Stage.INSTALLED: committing.publish,
}

_ENVIRONMENT: dict[str, Action] = {"cancel": cancellation.cancel, "mark": cancellation.mark}
_SITUATIONS = (("neither", "no-submission"), ("no-branch", "free"))
"""What the bounds leave open, by whether a verification may be submitted and whether a branch may start."""


@obeys("scheduling.one-action-a-turn", "scheduling.requests-independent", "placement.changes-no-token")
def successors(state: State, scope: Scope) -> list[Edge]:
    """The states that may follow, each with the rule that leads there and its weight.

    Weights are probabilities where a table model draws, and 1 for a choice: which request acts, what the environment
    does, and every outcome of the `Structure` model.
    """
    submitted, branching, marked, acting = _census(state)
    if acting >= 0:
        return _turn_goes_on(state, scope, acting)
    if marked:
        return _each(state, scope, "cancel", [i for i, request in enumerate(state) if request.cancelling])
    situation = _SITUATIONS[submitted < scope.max_in_flight][branching < scope.max_branches]
    remembered, edges = scope.memory[situation], []
    for index, request in enumerate(state):
        moves = remembered.get(request)
        if moves is None:
            moves = remembered[request] = _moves(request, scope, situation)
        if moves and scope.ring:
            edges += _served(state, index, moves)
            break
        before, after = state[:index], state[index + 1 :]
        for rule, weight, moved in moves:
            edges.append((rule, weight, before + (moved,) + after))  # noqa: RUF005 (twice as fast)
    return edges + _each(state, scope, "cancel", range(len(state))) if scope.cancellations else edges


def _census(state: State) -> tuple[int, int, bool, int]:
    """Verifications in flight, branches, whether a cancellation is pending, and whose turn goes on (-1 for none)."""
    submitted, branching, marked, acting = 0, 0, False, -1
    for request in state:
        if request.stage:
            acting = state.index(request)
        if request.cancelling:
            marked = True
        phase = request.phase
        if 3 <= phase <= 5:  # written out, as calls would halve the speed: in flight, drafting or holding a branch
            submitted += 1
            branching += phase != 3
    return submitted, branching, marked, acting


def _turn_goes_on(state: State, scope: Scope, index: int) -> list[Edge]:
    """The next step of a resolution, which no other request's turn interrupts."""
    request, remembered = state[index], scope.memory["free"]
    moves = remembered.get(request)
    if moves is None:
        moves = remembered[request] = _moves(request, scope, "free")
    before, after, edges = state[:index], state[index + 1 :], []
    for rule, weight, moved in moves:
        edges.append((rule, weight, before + (moved,) + after))  # noqa: RUF005 (twice as fast)
    if scope.callbacks and request.stage == 4:
        edges += _each(state, scope, "mark", range(len(state)))
    elif scope.cancellations and request.stage == 1:
        edges += _each(state, scope, "cancel", (index,))
    return edges


@obeys("scheduling.ring")
def _served(state: State, index: int, moves: tuple[Move, ...]) -> list[Edge]:
    """A turn of request `index`: behind it the ring starts with the next one."""
    rest = state[index + 1 :] + state[:index]
    return [(rule, weight, (*rest, moved)) for rule, weight, moved in moves]


@obeys("scheduling.in-flight-bound", "lookahead.bounded", "scheduling.phase-edges")
def _moves(request: Request, scope: Scope, situation: str) -> tuple[Move, ...]:
    """What one turn of the request may do."""
    action = BY_STAGE.get(request.stage) or BY_PHASE.get(request.phase)
    if action is None or (action is verification.submit and situation in {"no-submission", "neither"}):
        return ()
    may_branch = situation in {"free", "no-submission"}
    if request.phase == Phase.VERIFICATION_IN_FLIGHT and request.planned and may_branch:
        action = lookahead.begin
    moves = tuple(action(request))
    return (*moves, *cancellation.fail(request)) if scope.failures else moves


def _each(state: State, scope: Scope, situation: str, indices: Iterable[int]) -> list[Edge]:
    """What the environment may do to each of the requests named."""
    remembered, edges = scope.memory[situation], []
    for index in indices:
        request = state[index]
        moves = remembered.get(request)
        if moves is None:
            moves = remembered[request] = tuple(_ENVIRONMENT[situation](request))
        before, after = state[:index], state[index + 1 :]
        for rule, weight, moved in moves:
            edges.append((rule, weight, before + (moved,) + after))  # noqa: RUF005 (twice as fast)
    return edges
