"""What must happen somewhere in a scope: the check that a silent exploration was not an empty one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from eredu_spec.company import Fate, fates
from eredu_spec.explorer import Exploration, Step
from eredu_spec.phases import BRANCHING, LIVE, SUBMITTED, Phase, Stage
from eredu_spec.request import Resolution
from eredu_spec.scope import Scope
from eredu_spec.state import State
from eredu_spec.structure import Structure
from eredu_spec.terminal import EOS, GRAMMAR, ORDER, STOP

OfStep = Callable[[Step], bool]
OfState = Callable[[State], bool]
OfGroup = Callable[[tuple[Fate, ...]], bool]

Seen = TypeVar("Seen")


def unseen(exploration: Exploration) -> list[str]:
    """Names of what the scope should show and did not."""
    scope = exploration.scope
    return sorted(
        (
            *_never(sometimes_of_steps(scope), exploration.steps()),
            *_never(sometimes_of_states(scope), exploration.tree),
            *_never(sometimes_of_groups(scope), fates(exploration)),
        )
    )


def _never(wanted: dict[str, Callable[[Seen], bool]], seen: Iterable[Seen]) -> list[str]:
    """Names of what holds of nothing that is seen. Stops looking as soon as everything has been found."""
    left = dict(wanted)
    if left:
        for each in seen:
            left = {name: holds for name, holds in left.items() if not holds(each)}
            if not left:
                break
    return list(left)


def sometimes_of_steps(scope: Scope) -> dict[str, OfStep]:
    """What some step of some request must show in a scope with these settings."""
    depth = max(settings.requested for settings in scope.requests)
    models = [settings.model for settings in scope.requests if isinstance(settings.model, Structure)]
    masks = {mask for model in models for mask in model.terminal}
    looks_ahead = any(settings.lookahead_depth for settings in scope.requests)
    reasons = ["length", *(name for condition, name in ORDER if any(mask & condition for mask in masks))]
    phases = LIVE if looks_ahead else LIVE - BRANCHING
    wanted = {f"accepted {count} of {depth}": _accepted(count, depth) for count in range(depth + 1)}
    wanted |= _ROUNDS
    wanted |= {f"finish {reason}": _finished(reason) for reason in reasons}
    if depth >= 2:
        wanted["end inside the accepted proposals"] = _ends_inside
    if STOP | GRAMMAR | EOS in masks:
        wanted["all conditions at one token"] = _meets_all
    if any(model.grammar for model in models):
        wanted["block cut by the grammar"] = _is_cut
    if looks_ahead:
        wanted |= _BRANCHES
    if any(settings.lookahead_depth and settings.budget >= 2 * settings.requested + 4 for settings in scope.requests):
        wanted["promotion behind a promotion"] = lambda step: (
            _resolves(step) and step.before.reused > 0 and _of(step).branch == "promoted"
        )
    if any(settings.lookahead_depth and settings.window for settings in scope.requests):
        wanted["lookahead disabled"] = lambda step: step.rule == "adaptive.disable-when-unpaid"
    if scope.cancellations:
        wanted |= {f"cancelled in {phase}": _ended_in(phase, "cancelled") for phase in phases}
    if scope.callbacks:
        wanted["cancelled by a callback"] = lambda step: step.before.cancelling and step.after.finish == "cancelled"
    if scope.failures:
        wanted |= {f"failed in {phase}": _ended_in(phase, "failed") for phase in phases}
    return wanted


def sometimes_of_states(scope: Scope) -> dict[str, OfState]:
    """What some state must show."""
    if len(scope.requests) <= scope.max_in_flight:
        return {}
    return {"submission held back": lambda state: _is_held_back(state, scope)}


def _is_held_back(state: State, scope: Scope) -> bool:
    in_flight = sum(request.phase in SUBMITTED for request in state)
    return in_flight == scope.max_in_flight and any(request.phase is Phase.READY_TO_SUBMIT for request in state)


def sometimes_of_groups(scope: Scope) -> dict[str, OfGroup]:
    """What must become of the members of some group."""
    most = min(len(scope.requests), scope.max_in_flight, scope.max_group or scope.max_in_flight)
    if most < 2:
        return {}
    wanted: dict[str, OfGroup] = {f"group of {size}": _has_size(size) for size in range(2, most + 1)}
    wanted["members with different accepted counts"] = lambda group: len({fate.accepted for fate in group} - {None}) > 1
    wanted["a member ends in flight and another goes on"] = _beside("completed")
    if scope.cancellations:
        wanted["a member is cancelled in flight and another goes on"] = _beside("cancelled")
    if scope.failures:
        wanted["a member fails at submission and another goes on"] = _beside("failed at submission")
        wanted["a member fails in flight and another goes on"] = _beside("failed")
    return wanted


def _has_size(size: int) -> OfGroup:
    return lambda group: len(group) == size


def _beside(end: str) -> OfGroup:
    return lambda group: {end, "goes on"} <= {fate.end for fate in group}


def _accepted(count: int, depth: int) -> OfStep:
    return lambda step: _resolves(step) and len(step.before.block) == depth and _of(step).accepted == count


def _finished(reason: str) -> OfStep:
    return lambda step: step.after.phase is Phase.COMPLETED and step.after.finish == reason


def _ended_in(phase: Phase, reason: str) -> OfStep:
    return lambda step: step.before.phase is phase and step.after.finish == reason != step.before.finish


def _resolves(step: Step) -> bool:
    return step.after.stage is Stage.RESOLVED


def _of(step: Step) -> Resolution:
    assert step.after.resolution is not None
    return step.after.resolution


def _is_full(step: Step) -> bool:
    return _resolves(step) and _of(step).accepted == len(step.before.block)


def _ends_inside(step: Step) -> bool:
    return _resolves(step) and _of(step).finish is not None and len(_of(step).emitted) < _of(step).accepted


def _meets_all(step: Step) -> bool:
    return _resolves(step) and _of(step).emitted[-1] == STOP | GRAMMAR | EOS and _of(step).finish == "stop"


def _is_cut(step: Step) -> bool:
    return step.after.phase is Phase.READY_TO_SUBMIT and step.after.clip == "grammar" and step.after.ended


_ROUNDS: dict[str, OfStep] = {
    "round without proposals": lambda step: _resolves(step) and not step.before.block,
    "end at a replacement": lambda step: (
        _resolves(step)
        and _of(step).finish is not None
        and _of(step).accepted < len(step.before.block)
        and len(_of(step).emitted) == _of(step).accepted + 1
    ),
    "end at a bonus": lambda step: (
        _is_full(step) and _of(step).finish is not None and len(_of(step).emitted) == len(step.before.block) + 1
    ),
    "block clipped by the budget": lambda step: (
        step.after.phase is Phase.READY_TO_SUBMIT and step.after.clip == "budget"
    ),
}

_BRANCHES: dict[str, OfStep] = {
    "bonus hit": lambda step: _resolves(step) and _of(step).matched is True,
    "bonus miss": lambda step: _resolves(step) and _of(step).matched is False,
    "branch dropped by a rejection": lambda step: (
        _resolves(step) and bool(step.before.branch) and _of(step).accepted < len(step.before.block)
    ),
    "branch dropped by a terminal bonus": lambda step: (
        _is_full(step)
        and bool(step.before.branch)
        and _of(step).finish is not None
        and len(_of(step).emitted) == len(step.before.block) + 1
    ),
    "branch cut by the grammar": lambda step: (
        step.after.phase is Phase.LOOKAHEAD_READY and 0 < len(step.after.branch) < step.after.planned
    ),
    "promoted block already full": lambda step: (
        step.before.stage is Stage.INSTALLED and step.after.phase is Phase.READY_TO_SUBMIT
    ),
    "promoted block rejected": lambda step: (
        _resolves(step) and step.before.reused > 0 and _of(step).accepted < len(step.before.block)
    ),
    "budget clips a promoted block": lambda step: (
        step.after.stage is Stage.INSTALLED and step.after.reused > 0 and step.after.clip == "budget"
    ),
}
