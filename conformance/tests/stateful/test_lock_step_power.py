"""What the lock-step sees: engines that are wrong in one place part from the machine, and say where."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import eredu.scheduling.actions as actions
import eredu.scheduling.resolution as resolution
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.statistics import BranchResolution
from eredu.scheduling.clipping import Depth, clip_depth
from eredu.scheduling.endings import RequestEndings
from eredu.scheduling.lookahead import AdaptiveLookahead, planned_length, resolve_branch
from eredu.scheduling.phase import Phase
from eredu.scheduling.request_state import RequestState
from eredu.scheduling.ring import Ring
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu_conformance.checks.check import Kind
from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.registry import all_checks
from eredu_conformance.checks.stateful.machine import MACHINES
from eredu_conformance.checks.stateful.running import run_programs
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.harness.instrumented_executor import InstrumentedExecutor
from eredu_conformance.harness.lock_step import DivergenceError, LockStep, machine_look
from eredu_conformance.harness.table_forward import forward
from eredu_conformance.subjects.eredu import EreduSubject

Patch = Callable[[pytest.MonkeyPatch], None]


def clip_one_deeper_behind_a_round(patch: pytest.MonkeyPatch) -> None:
    right = clip_depth
    deeper = lambda *given: Depth(min(right(*given).count + 1, given[0]), right(*given).reason)  # noqa: E731
    patch.setattr(resolution, "clip_depth", deeper)


def plan_branches_one_shorter(patch: pytest.MonkeyPatch) -> None:
    right = planned_length
    patch.setattr(actions, "planned_length", lambda *given: right(*given) - (right(*given) > 2))


def reuse_one_token_less(patch: pytest.MonkeyPatch) -> None:
    right = resolve_branch

    def wrong(*given: Any) -> BranchResolution:
        found = right(*given)
        return replace(found, reused=max(0, found.reused - 1))

    patch.setattr(resolution, "resolve_branch", wrong)


def count_no_dropped_branch(patch: pytest.MonkeyPatch) -> None:
    right = AdaptiveLookahead.observe

    def wrong(self: AdaptiveLookahead, planned: int, branch: BranchResolution) -> AdaptiveLookahead:
        return right(self, planned, branch) if branch.consumed else self

    patch.setattr(AdaptiveLookahead, "observe", wrong)


def serve_the_first_request_again(patch: pytest.MonkeyPatch) -> None:
    right = SpeculativeScheduler.turn

    def wrong(self: SpeculativeScheduler[Any, Any, Any]) -> None:
        right(self)
        self._ring._states.rotate(1)

    patch.setattr(SpeculativeScheduler, "turn", wrong)


def overrun_the_bound_of_verifications(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ring, "in_flight", 0)


def overrun_the_bound_of_branches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ring, "branches", 0)


def never_branch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(actions.RequestActions, "_plan", lambda self, state, block: 0)


def draft_promoted_blocks_that_are_full(patch: pytest.MonkeyPatch) -> None:
    right = RequestState.enter

    def wrong(self: RequestState[Any, Any, Any], phase: Phase) -> None:
        promoted = self.phase is Phase.RESOLUTION and phase is Phase.READY_TO_SUBMIT
        right(self, Phase.READY_TO_DRAFT if promoted else phase)

    patch.setattr(RequestState, "enter", wrong)


def publish_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    right, resolving = resolution.resolve_round, actions.RequestActions.resolve
    current: list[RequestState[Any, Any, Any]] = []

    def wrong(**given: Any) -> Any:
        found = right(**given)
        current[-1].output.extend(found.walk.emitted)
        return found

    def resolve(self: Any, state: RequestState[Any, Any, Any]) -> Any:
        current.append(state)
        return resolving(self, state)

    patch.setattr(actions, "resolve_round", wrong)
    patch.setattr(actions.RequestActions, "resolve", resolve)


def cancel_without_rolling_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eredu.scheduling.endings.SUBMITTED", frozenset())


def count_failed_rounds(patch: pytest.MonkeyPatch) -> None:
    right = RequestEndings.fail

    def wrong(self: Any, states: Iterable[RequestState[Any, Any, Any]], error: BaseException) -> list[BaseException]:
        for state in states:
            state.statistics = replace(state.statistics, rounds=state.statistics.rounds + 1)
        return right(self, states, error)

    patch.setattr(RequestEndings, "fail", wrong)


def raise_where_a_request_joins(patch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise RuntimeError("out of luck")

    patch.setattr("eredu.scheduling.scheduler.admit", wrong)


WRONG: dict[str, tuple[Patch, str, str]] = {
    "clip": (clip_one_deeper_behind_a_round, "undisturbed", ""),
    "plan": (plan_branches_one_shorter, "undisturbed", ""),
    "reuse": (reuse_one_token_less, "undisturbed", "has block = "),
    "window": (count_no_dropped_branch, "undisturbed", "has "),
    "ring": (serve_the_first_request_again, "undisturbed", "has phase = "),
    "in-flight": (overrun_the_bound_of_verifications, "undisturbed", ""),
    "branches": (overrun_the_bound_of_branches, "undisturbed", ""),
    "no-branch": (never_branch, "undisturbed", "has "),
    "full-block": (draft_promoted_blocks_that_are_full, "undisturbed", "has phase = ready-to-draft"),
    "early": (publish_before_the_commit, "failing", ""),
    "cancel": (cancel_without_rolling_back, "cancelling", "has cache = "),
    "raises": (raise_where_a_request_joins, "undisturbed", "RuntimeError('out of luck')"),
    "failed": (count_failed_rounds, "failing", "StatisticsError: the statistics do not balance"),
}
"""Wrong engines: the patch, the machine that meets it, and what it says."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_engine_parts_from_the_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, machine, said = WRONG[name]
    patch(monkeypatch)
    some = (run_programs(machine, programs=20, steps=25, seed=seed, shrink=False) for seed in range(20))
    found = next((each for each in some if each is not None), None)  # ends with the first finding
    assert found is not None
    assert said in found.message, found.message


def test_the_machine_looks_like_the_engine_in_every_phase() -> None:
    step = LockStep("near", adaptive_lookahead=False, prefill_chunk=1)
    step.join([0, 1, 2], rule="rejection", seed=3, max_tokens=12, max_proposals=2)
    seen = set()
    while not step.table.scheduler.is_done:
        seen.add(machine_look(step.states[0][0]).phase)
        step.turn()
    assert seen == {str(phase) for phase in Phase} - {"resolution", "completed", "cancelled"}


def test_a_divergence_names_the_field_of_the_nearest_state() -> None:
    step = LockStep("near")
    step.join([0, 1], max_tokens=4, max_proposals=1)
    step.turn()
    step.table.tables.sequences[0].target.rollback(0)
    with pytest.raises(DivergenceError, match="request 0 has cache = 0, and the machine 1"):
        step.turn()


CHECKS = {each.id: each for each in all_checks() if each.kind is Kind.STATEFUL}


def test_there_is_a_check_of_every_machine() -> None:
    assert {name.split("/")[1] for name in CHECKS} == set(MACHINES)


def test_the_check_passes_eredu(tmp_path: Path) -> None:
    subject = EreduSubject()
    check = CHECKS["stateful.lock-step/everything/16"]
    capabilities = subject.start()
    assert check.needs.obstacle(capabilities) is None
    assert check.needs.obstacle(replace(capabilities, name="other")) == "it is about eredu"
    assert check.run(SubjectSession(subject, capabilities, tmp_path), 5).text.startswith("16 programs")


@pytest.mark.nightly
def test_the_check_tells_the_shortest_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    never_branch(monkeypatch)
    subject = EreduSubject()
    with pytest.raises(CheckFailure) as caught:
        CHECKS["stateful.lock-step/undisturbed/16"].run(SubjectSession(subject, subject.start(), tmp_path), 3)
    case = caught.value.counterexample.case
    assert case["machine"] == "undisturbed"
    actions_taken = [line for line in case["program"] if line.startswith("state.")]
    assert actions_taken[0] == "state.begin(data=data(...))"
    assert len(actions_taken) <= 4


def test_schedules_differ_by_what_the_machine_is_told() -> None:
    step = LockStep("near", max_in_flight=2, max_branches=1)
    assert (step.scope.max_in_flight, step.scope.max_branches) == (2, 1)
    assert step.options == MtpSchedulerOptions(max_in_flight=2, max_branches=1)


def three_in_a_group(*, fail: bool = False) -> LockStep:
    step = LockStep("near", adaptive_lookahead=False)
    for seed in range(3):
        step.join([0, 1], rule="rejection", seed=seed, max_tokens=12, max_proposals=2)
    if fail:
        step.fail_at_next("submit", after=False, place=1)
    return step


def finish(step: LockStep) -> None:
    while not step.table.scheduler.is_done:
        step.turn()
    step.run_to_end()
    assert step.table.executor.groups[0] == (0, 1, 2)


# rule: scheduling.members-end-alone
def test_a_member_s_failure_that_takes_others_along_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    finish(three_in_a_group(fail=True))
    right = InstrumentedExecutor.submit

    def wrong(self: Any, group: Any) -> list[Any]:
        entries = right(self, group)
        failed = next((entry for entry in entries if isinstance(entry, Exception)), None)
        return entries if failed is None else [failed for _ in entries]

    monkeypatch.setattr(InstrumentedExecutor, "submit", wrong)
    with pytest.raises(DivergenceError, match=r"requests \[0, 1, 2\] failed, and \{1\} were struck"):
        finish(three_in_a_group(fail=True))


# rule: scheduling.group-changes-nothing
def test_rows_of_a_neighbour_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    finish(three_in_a_group())
    right = forward

    def wrong(*given: Any) -> Any:
        rows = right(*given)
        return [*rows[1:], *rows[:1]]

    monkeypatch.setattr("eredu_conformance.harness.table_executor.forward", wrong)
    with pytest.raises(DivergenceError, match="in company request 0 has tokens"):
        finish(three_in_a_group())
