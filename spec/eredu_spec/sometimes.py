"""What must happen somewhere in a scope: the check that a silent exploration was not an empty one."""

from __future__ import annotations

from collections.abc import Callable

from eredu_spec.explorer import Exploration, Step
from eredu_spec.phases import Phase, Stage, is_live
from eredu_spec.scope import Scope
from eredu_spec.state import Resolution
from eredu_spec.terminal import EOS, GRAMMAR, STOP

Sighting = Callable[[Step], bool]


def unseen(exploration: Exploration) -> list[str]:
    """Names of the sightings that the scope should show and did not."""
    wanted = sightings(exploration.scope)
    for step in exploration.steps():
        for name in [name for name, is_seen in wanted.items() if is_seen(step)]:
            del wanted[name]
        if not wanted:
            break
    return sorted(wanted)


def sightings(scope: Scope) -> dict[str, Sighting]:
    """Everything that a scope with these settings must be able to show."""
    depth = max(settings.requested for settings in scope.requests)
    wanted = {f"accepted {count} of {depth}": _accepted(count, depth) for count in range(depth + 1)}
    wanted |= _ROUNDS
    wanted |= {f"finish {reason}": _finished(reason) for reason in ("stop", "grammar", "eos", "length")}
    if any(settings.lookahead_depth for settings in scope.requests):
        wanted |= _BRANCHES
    if any(settings.lookahead_depth and settings.budget >= 2 * settings.requested + 4 for settings in scope.requests):
        wanted["promotion behind a promotion"] = lambda step: (
            _resolves(step) and step.before.reused > 0 and _of(step).branch == "promoted"
        )
    if any(settings.lookahead_depth and settings.window for settings in scope.requests):
        wanted["lookahead disabled"] = lambda step: step.rule == "adaptive.disable-when-unpaid"
    if len(scope.requests) > scope.max_in_flight:
        wanted["submission held back"] = lambda step: step.rule == "verify.leading-token-first"
    if scope.cancellations:
        wanted |= {f"cancelled in {phase.label}": _ended_in(phase, "cancelled") for phase in Phase if is_live(phase)}
    if scope.callbacks:
        wanted["cancelled by a callback"] = lambda step: step.before.cancelling and step.after.finish == "cancelled"
    if scope.failures:
        wanted |= {f"failed in {phase.label}": _ended_in(phase, "failed") for phase in Phase if is_live(phase)}
    return wanted


def _accepted(count: int, depth: int) -> Sighting:
    return lambda step: _resolves(step) and len(step.before.block) == depth and _of(step).accepted == count


def _finished(reason: str) -> Sighting:
    return lambda step: step.after.phase == Phase.COMPLETED and step.after.finish == reason


def _ended_in(phase: Phase, reason: str) -> Sighting:
    return lambda step: step.before.phase == phase and step.after.finish == reason != step.before.finish


def _resolves(step: Step) -> bool:
    return step.after.stage == Stage.RESOLVED


def _of(step: Step) -> Resolution:
    assert step.after.resolution is not None
    return step.after.resolution


def _is_full(step: Step) -> bool:
    return _resolves(step) and _of(step).accepted == len(step.before.block)


_ROUNDS: dict[str, Sighting] = {
    "round without proposals": lambda step: _resolves(step) and not step.before.block,
    "end inside the accepted proposals": lambda step: (
        _resolves(step) and _of(step).finish is not None and len(_of(step).emitted) < _of(step).accepted
    ),
    "end at a replacement": lambda step: (
        _resolves(step)
        and _of(step).finish is not None
        and _of(step).accepted < len(step.before.block)
        and len(_of(step).emitted) == _of(step).accepted + 1
    ),
    "end at a bonus": lambda step: (
        _is_full(step) and _of(step).finish is not None and len(_of(step).emitted) == len(step.before.block) + 1
    ),
    "all conditions at one token": lambda step: (
        _resolves(step) and _of(step).emitted[-1] == STOP | GRAMMAR | EOS and _of(step).finish == "stop"
    ),
    "block cut by the grammar": lambda step: (
        step.after.phase == Phase.READY_TO_SUBMIT and step.after.clip == "grammar" and step.after.ended
    ),
    "block clipped by the budget": lambda step: (
        step.after.phase == Phase.READY_TO_SUBMIT and step.after.clip == "budget"
    ),
}

_BRANCHES: dict[str, Sighting] = {
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
        step.after.phase == Phase.LOOKAHEAD_READY and 0 < len(step.after.branch) < step.after.planned
    ),
    "promoted block already full": lambda step: (
        step.before.stage == Stage.INSTALLED and step.after.phase == Phase.READY_TO_SUBMIT
    ),
    "promoted block rejected": lambda step: (
        _resolves(step) and step.before.reused > 0 and _of(step).accepted < len(step.before.block)
    ),
    "budget clips a promoted block": lambda step: (
        step.after.stage == Stage.INSTALLED and step.after.reused > 0 and step.after.clip == "budget"
    ),
}
