"""Faults of eredu's plans: how far a round and its branch reach, what becomes of a branch, and the adaptive switch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eredu.contract.executor import ExecutorTraits
from eredu.contract.statistics import BranchOutcome, BranchResolution
from eredu.scheduling.actions import RequestActions
from eredu.scheduling.clipping import Depth, clip_depth
from eredu.scheduling.lookahead import AdaptiveLookahead as Switch
from eredu.scheduling.lookahead import planned_length, resolve_branch
from eredu_conformance.checks.check import Kind
from eredu_conformance.faults.engine.fault import EngineFault
from eredu_conformance.faults.engine.seam import Wrapped
from eredu_conformance.faults.engine.syntax import Rewritten

_SCHEDULING = "conformance/tests/scheduling"
_TRACE = "conformance/tests/trace/test_trace_of_schedules.py::test_a_schedule_s_trace_is_a_run_of_the_machine"

_Clip = Callable[[int, ExecutorTraits, int, int], Depth]
_Plan = Callable[[int, int, int, ExecutorTraits, int, int], int]
_Observe = Callable[[Switch, int, BranchResolution], Switch]


def _fills_the_budget(right: _Clip, requested: int, traits: ExecutorTraits, committed: int, remaining: int) -> Depth:
    return right(requested, traits, committed, remaining + 1)


def _past_the_budget(
    right: _Plan, depth: int, limit: int, requested: int, traits: ExecutorTraits, committed: int, remaining: int
) -> int:
    return right(depth, limit, requested, traits, committed, remaining + 1)


def _all_of_it(
    right: Callable[[int, int, int, int], BranchResolution], drafted: int, next_depth: int, guess: int, bonus: int
) -> BranchResolution:
    branch = right(drafted, next_depth, guess, bonus)
    promoted = branch.outcome is BranchOutcome.PROMOTED
    return replace(branch, reused=min(drafted, next_depth)) if promoted else branch


def _decides(switch: Switch) -> bool:
    return switch.resolved + 1 == switch.window


def _forgives(right: _Observe, switch: Switch, planned: int, branch: BranchResolution) -> Switch:
    return right(switch, planned - _decides(switch), branch)


def _comes_back(right: _Observe, switch: Switch, planned: int, branch: BranchResolution) -> Switch:
    return right(replace(switch, enabled=switch.enabled or _decides(switch)), planned, branch)


def _by_drafted(right: _Observe, switch: Switch, _planned: int, branch: BranchResolution) -> Switch:
    return right(switch, branch.drafted, branch)


FAULTS = (
    EngineFault(
        name="clip-forgets-the-target-s-token",
        rule="draft.clip",
        story="A block fills the budget, and the token that the target adds finds no room.",
        seam=Wrapped(clip_depth, _fills_the_budget),
        killer=f"{_SCHEDULING}/test_schedule_clipping.py::test_the_tightest_limit_binds_and_ties_name_the_first",
        kind=Kind.STATEFUL,
    ),
    EngineFault(
        name="switch-forgives-one-loss",
        rule="adaptive.disable-when-unpaid",
        story="One discarded token more than was reused still counts as paid.",
        seam=Wrapped(Switch.observe, _forgives),
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_a_window_pays_while_planned_discards_do_not_outnumber_reuses",
    ),
    EngineFault(
        name="branch-plans-past-the-budget",
        rule="lookahead.planned-length",
        story="The plan forgets that the bonus uses a token of the budget too.",
        seam=Wrapped(planned_length, _past_the_budget),
        killer=_TRACE,
    ),
    EngineFault(
        name="branch-behind-a-finished-grammar",
        rule="constraints.drafting-stops-at-completion",
        story="A branch is started behind a block that completes the grammar.",
        seam=Rewritten(RequestActions._plan, "B.at_grammar_end", "False"),
        killer=_TRACE,
    ),
    EngineFault(
        name="promotion-forgets-the-guess",
        rule="promotion.consume-one-reuse-the-rest",
        story="All of a promoted branch is reused, the guess too, which was emitted as the bonus already.",
        seam=Wrapped(resolve_branch, _all_of_it),
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_a_branch_lives_only_on_its_own_guess",
    ),
    EngineFault(
        name="switch-comes-back",
        rule="adaptive.disable-when-unpaid",
        story="A window that pays turns lookahead on again.",
        seam=Wrapped(Switch.observe, _comes_back),
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_a_disabled_switch_stays_disabled",
    ),
    EngineFault(
        name="switch-counts-drafted-tokens",
        rule="adaptive.planned-not-drawn",
        story="The switch counts what was drafted, which a discarded token shortened, in place of what was planned.",
        seam=Wrapped(Switch.observe, _by_drafted),
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_only_planned_lengths_count_against_a_dropped_branch",
    ),
)
"""Faults of the plans."""
