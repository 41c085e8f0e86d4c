"""Planted mistakes in the machine: each is found by the rule it breaks, with a shortest way to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from eredu_spec import (
    cancellation,
    committing,
    lookahead,
    properties,
    round_statistics,
    successors,
    terminal,
    verification,
)
from eredu_spec.cancellation import _dropped
from eredu_spec.drafting import ONE, Move
from eredu_spec.explorer import explore
from eredu_spec.phases import DROPPABLE, LIVE, Phase, Stage
from eredu_spec.properties import Violation, violations
from eredu_spec.request import Request, Resolution
from eredu_spec.scope import Scope
from eredu_spec.scopes import small, tiny
from eredu_spec.state import evolve
from eredu_spec.statistics import Statistics

Tokens = tuple[int, ...]
Plant = Callable[[pytest.MonkeyPatch], None]


def found(scope: Scope | None = None) -> dict[str, Violation]:
    return {violation.rule: violation for violation in violations(explore(scope or tiny()))}


def keep_one_more(patch: pytest.MonkeyPatch) -> None:
    def commit(request: Request) -> Iterator[Move]:
        for rule, weight, after in committing.commit(request):
            kept = len(after.rows) + 1
            yield rule, weight, evolve(after, rows=request.rows[:kept])

    patch.setitem(successors.BY_STAGE, Stage.RESOLVED, commit)


def keep_everything(patch: pytest.MonkeyPatch) -> None:
    def commit(request: Request) -> Iterator[Move]:
        yield "commit.one-number", ONE, evolve(request, stage=Stage.COMMITTED)

    patch.setitem(successors.BY_STAGE, Stage.RESOLVED, commit)


def publish_before_commit(patch: pytest.MonkeyPatch) -> None:
    def resolve(request: Request) -> Iterator[Move]:
        for rule, weight, after in verification.resolve(request):
            assert after.resolution is not None
            yield rule, weight, evolve(after, published=len(after.output) + len(after.resolution.emitted))

    patch.setitem(successors.BY_STAGE, Stage.WAITED, resolve)


def install_before_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(successors.BY_STAGE, Stage.RESOLVED, committing.install)


def emit_behind_the_end(patch: pytest.MonkeyPatch) -> None:
    def walk(output: Tokens, candidates: Tokens, *rest: Any) -> tuple[Tokens, str | None]:
        emitted, finish = terminal.walk(output, candidates, *rest)
        return (candidates if finish in {"eos", "stop"} else emitted), finish

    patch.setattr("eredu_spec.verification.walk", walk)


def forget_the_budget_of_a_branch(patch: pytest.MonkeyPatch) -> None:
    def planned_length(request: Request) -> int:
        return 2 if request.block else 0

    patch.setattr("eredu_spec.verification.planned_length", planned_length)


def promote_behind_any_bonus(patch: pytest.MonkeyPatch) -> None:
    def resolved_branch(request: Request, resolution: Resolution) -> tuple[Resolution, str]:
        if resolution.finish is None and resolution.accepted == len(request.block):
            return real(request, resolution._replace(matched=True))[0]._replace(matched=False), "lookahead.drop-whole"
        return real(request, resolution)

    real = lookahead._resolved_branch
    patch.setattr(lookahead, "_resolved_branch", resolved_branch)


def keep_the_block(patch: pytest.MonkeyPatch) -> None:
    def install(request: Request) -> Iterator[Move]:
        for rule, weight, after in committing.install(request):
            yield rule, weight, evolve(after, block=request.block) if after.finish else after

    patch.setitem(successors.BY_STAGE, Stage.COMMITTED, install)


def cancel_without_rollback(patch: pytest.MonkeyPatch) -> None:
    def cancel(request: Request) -> Iterator[Move]:
        if request.phase in LIVE and request.stage in DROPPABLE:
            yield "cancellation.submitted-waits", ONE, _dropped(request, request.rows, "cancelled")

    patch.setattr(cancellation, "cancel", cancel)


def count_a_cancelled_round(patch: pytest.MonkeyPatch) -> None:
    def cancel(request: Request) -> Iterator[Move]:
        for rule, weight, after in real(request):
            counted = after.statistics
            counted = counted._replace(rounds=counted.rounds + 1, target_rows=counted.target_rows + 1)
            yield rule, weight, evolve(after, statistics=counted)

    real = cancellation.cancel
    patch.setattr(cancellation, "cancel", cancel)


def move_the_frontier_with_the_branch(patch: pytest.MonkeyPatch) -> None:
    def draft_branch(request: Request) -> Iterator[Move]:
        for rule, weight, after in lookahead.draft_branch(request):
            yield rule, weight, evolve(after, frontier=after.clone)

    patch.setitem(successors.BY_PHASE, Phase.LOOKAHEAD_DRAFTING, draft_branch)


def count_unexamined_as_rejected(patch: pytest.MonkeyPatch) -> None:
    def of_round(request: Request, resolution: Resolution) -> Statistics:
        counted = round_statistics.of_round(request, resolution)
        return counted._replace(rejected=counted.rejected + counted.unexamined)

    patch.setattr("eredu_spec.committing.of_round", of_round)


def skip_the_wait(patch: pytest.MonkeyPatch) -> None:
    def submit(request: Request) -> Iterator[Move]:
        for rule, weight, after in verification.submit(request):
            yield rule, weight, evolve(after, phase=Phase.RESOLUTION, stage=Stage.WAITED)

    patch.setitem(successors.BY_PHASE, Phase.READY_TO_SUBMIT, submit)


PLANTS: list[tuple[Plant, str]] = [
    (keep_one_more, "commit.one-number"),
    (keep_everything, "commit.leading-token-uncached"),
    (publish_before_commit, "events.after-commit"),
    (install_before_commit, "commit.on-copies"),
    (emit_behind_the_end, "terminal.nothing-behind"),
    (promote_behind_any_bonus, "promotion.full-acceptance-and-equal-bonus"),
    (keep_the_block, "commit.on-copies"),
    (cancel_without_rollback, "cancellation.leaves-no-trace"),
    (count_a_cancelled_round, "cancellation.leaves-no-trace"),
    (move_the_frontier_with_the_branch, "draft.frontier-exact"),
    (count_unexamined_as_rejected, "statistics.proposals-balance"),
    (skip_the_wait, "scheduling.phase-edges"),
    (forget_the_budget_of_a_branch, "lookahead.planned-length"),
]


@pytest.mark.parametrize(("plant", "rule"), PLANTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, rule: str) -> None:
    plant(monkeypatch)
    seen = found()
    assert rule in seen
    trace = seen[rule].trace
    assert len(trace.states) == len(trace.rules) + 1
    assert rule in str(seen[rule])


def test_the_way_is_a_shortest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_everything(monkeypatch)
    # Two chunks of prefill, draft, submit, wait, resolve, commit: nothing shorter commits at all, and a block of two
    # or one proposals takes as many steps as an empty one.
    assert len(found()["commit.leading-token-uncached"].trace.rules) == 7


def test_a_bound_that_is_not_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(successors, "_room", lambda *_: 2)
    monkeypatch.setattr(successors, "_may_branch", lambda *_: True)
    scope = small()
    assert {"scheduling.in-flight-bound", "lookahead.bounded"} <= found(scope).keys()


def test_every_property_has_a_name_and_a_docstring() -> None:
    tables = (properties.REQUEST_RULES, properties.STEP_RULES, properties.STATE_RULES, properties.EDGE_RULES)
    for table in tables:
        for checks in table.values():
            assert all(check.__doc__ for check in checks)
