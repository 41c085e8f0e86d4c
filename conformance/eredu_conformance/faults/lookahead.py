"""Faults of lookahead branches, their accounting, and the rule that turns them off. The law alone sees few of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eredu_conformance.faults.fault import Fault
from eredu_reference import Constraint, Drafter, Schedule
from eredu_reference.adaptive import Adaptive, observe_branch
from eredu_reference.clipping import Limits, plan_branch
from eredu_reference.constraint import State, is_complete
from eredu_reference.frontier import Block, Frontier
from eredu_reference.models import Output
from eredu_reference.pieces import promoted_block
from eredu_reference.statistics import BranchOutcome, RoundReport, Statistics, count_round
from eredu_reference.verification import Verification, await_rows


def _with_the_guess(branch: Block, reused: int) -> Block:
    return Block(branch.tokens[:reused], branch.rows[:reused], branch.frontier, branch.grammar)


def _always_full(limits: Limits, count: int, branch_length: int) -> int:
    return branch_length if count and limits.remaining > count + 1 else 0


def _even_the_guess(limits: Limits, count: int, branch_length: int) -> int:
    planned = plan_branch(limits, count, branch_length)
    return planned if planned else int(count > 0 and limits.remaining - count - 1 >= 1)


def _dropped_uncounted(statistics: Statistics, report: RoundReport) -> Statistics:
    if report.branch is BranchOutcome.DROPPED:
        report = replace(report, branch=BranchOutcome.NONE, branch_tokens=())
    return count_round(statistics, report)


def _partial_is_mismatch(statistics: Statistics, report: RoundReport) -> Statistics:
    return count_round(statistics, replace(report, compared=report.branch is not BranchOutcome.NONE))


def _behind_is_rejected(statistics: Statistics, report: RoundReport) -> Statistics:
    after = count_round(statistics, report)
    behind = after.unexamined - statistics.unexamined
    return replace(after, rejected=after.rejected + behind, unexamined=statistics.unexamined)


def _accepted_past_the_end(statistics: Statistics, report: RoundReport) -> Statistics:
    after = count_round(statistics, report)
    more = statistics.accepted + report.accepted - after.accepted
    return replace(after, accepted=after.accepted + more, unexamined=after.unexamined - more)


def _bonus_is_accepted(statistics: Statistics, report: RoundReport) -> Statistics:
    after = count_round(statistics, report)
    supplied = after.target_tokens - statistics.target_tokens
    return replace(after, accepted=after.accepted + supplied, target_tokens=statistics.target_tokens)


def _sliding(adaptive: Adaptive, planned: int, *, promoted: bool, reused: int) -> Adaptive:
    after = observe_branch(replace(adaptive, window=10**6), planned, promoted=promoted, reused=reused)
    late = adaptive.window is not None and after.resolved >= adaptive.window
    pays = not late or (after.reused > 0 and after.wasted <= after.reused)
    return replace(after, window=adaptive.window, enabled=adaptive.enabled and pays)


def _drafted_is_wasted(adaptive: Adaptive, planned: int, *, promoted: bool, reused: int) -> Adaptive:
    return observe_branch(adaptive, planned + int(promoted), promoted=promoted, reused=reused)


def _comes_back(drafter: Drafter, schedule: Schedule, switch: Adaptive, rounds: int) -> bool:
    return drafter.exact_promotion and schedule.lookahead and (switch.enabled or rounds % 3 == 0)


def _one_token_only() -> Mapping[str, object]:
    ahead, asked = [False], [0]

    def copied(frontier: Frontier) -> Frontier:
        ahead[0], asked[0] = True, 0
        return frontier.copy()

    def waited(verification: Verification) -> tuple[Output, ...]:
        ahead[0] = False
        return await_rows(verification)

    def ends(constraint: Constraint | None, state: State) -> bool:
        asked[0] += 1
        return is_complete(constraint, state) or (ahead[0] and asked[0] > 2)

    return {"clone": copied, "await_rows": waited, "drafting_ends": ends}


def _not_topped_up() -> Mapping[str, object]:
    carried: list[int] = []

    def start(branch: Block, reused: int) -> Block:
        carried[:] = [reused]
        return promoted_block(branch, reused)

    def settled(switch: Adaptive, planned: int, *, promoted: bool, reused: int) -> Adaptive:
        if not promoted:
            carried.clear()
        return observe_branch(switch, planned, promoted=promoted, reused=reused)

    def ends(constraint: Constraint | None, state: State) -> bool:
        return is_complete(constraint, state) or bool(carried and carried.pop())

    return {"promoted_block": start, "observe_branch": settled, "drafting_ends": ends}


FAULTS = (
    Fault(
        name="inexact-drafter-branches",
        rule="lookahead.exact-promotion-only",
        killed_by="trace.lookahead/table-near-short-draft/greedy",
        story="A drafter that does not promise exact promotion is allowed to draft ahead.",
        replace={"may_branch": lambda _drafter, schedule, switch, *_: schedule.lookahead and switch.enabled},
    ),
    Fault(
        name="lookahead-switch-ignored",
        rule="lookahead.exact-promotion-only",
        killed_by="state.statistics-equal-reference/table-equal/greedy/off",
        story="The reference setting of a benchmark, lookahead off, drafts ahead all the same.",
        replace={"may_branch": lambda drafter, _schedule, switch, *_: drafter.exact_promotion and switch.enabled},
    ),
    Fault(
        name="lookahead-comes-back",
        rule="adaptive.disable-when-unpaid",
        killed_by="state.statistics-equal-reference/table-equal/rejection/adaptive",
        story="Lookahead that was turned off for good is tried again after a while.",
        replace={"may_branch": _comes_back},
    ),
    Fault(
        name="branch-cut-short",
        rule="lookahead.drafted-whole",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="A branch is stopped when the verification seems to be ready; its length, and all that counts it, then"
        " follows the clock.",
        replace=_one_token_only,
    ),
    Fault(
        name="promoted-block-not-topped-up",
        rule="promotion.top-up",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="A promoted branch is verified as it is, though the round has room for more.",
        replace=_not_topped_up,
    ),
    Fault(
        name="promoted-after-partial-acceptance",
        rule="promotion.full-acceptance-and-equal-bonus",
        killed_by="trace.lookahead/table-near/rejection",
        story="The replacement happens to be the guess, and a branch behind rejected proposals lives on.",
        replace={"promotes": lambda guess, token, *, terminal, **_: not terminal and guess == token},
    ),
    Fault(
        name="promoted-on-a-wrong-bonus",
        rule="promotion.full-acceptance-and-equal-bonus",
        killed_by="state.statistics-equal-reference/table-equal/rejection/adaptive",
        story="A branch lives although the bonus is another token. With the recorded q the law does not change at all;"
        " the drafter's frontier and the statistics do.",
        replace={"promotes": lambda *_, accepted, count, terminal: accepted == count and not terminal},
    ),
    Fault(
        name="promoted-behind-the-end",
        rule="lookahead.drop-whole",
        killed_by="trace.endings/table-near/greedy",
        story="A terminal bonus leaves its branch alive and counted as a success.",
        replace={"promotes": lambda guess, token, *, accepted, count, **_: accepted == count and guess == token},
    ),
    Fault(
        name="never-promoted",
        rule="promotion.full-acceptance-and-equal-bonus",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="Every branch is drafted and dropped: the right text at a higher price.",
        replace={"promotes": lambda *_, **__: False},
    ),
    Fault(
        name="promoted-block-not-clipped",
        rule="promotion.consume-one-reuse-the-rest",
        killed_by="trace.budget/table-near/greedy",
        story="A branch is planned and promoted at full length, and brings more proposals than the next round has room"
        " for: past the budget, or past a context.",
        replace={"plan_branch": _always_full, "reused_tokens": lambda branch_length, *_: branch_length - 1},
    ),
    Fault(
        name="last-branch-token-thrown-away",
        rule="promotion.top-up",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="One good token of every promoted branch is dropped, so a block that was full is drafted again.",
        replace={"reused_tokens": lambda branch_length, next_count: max(0, min(branch_length - 2, next_count))},
    ),
    Fault(
        name="guess-reused-as-a-proposal",
        rule="promotion.consume-one-reuse-the-rest",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="The guess equals the bonus and is then proposed again behind it.",
        replace={"promoted_block": _with_the_guess},
    ),
    Fault(
        name="branch-plan-ignores-the-next-clip",
        rule="lookahead.planned-length",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="Branches are drafted at full length where the budget or a context leaves room for less.",
        replace={"plan_branch": _always_full},
    ),
    Fault(
        name="branch-of-a-guess-only",
        rule="lookahead.planned-length",
        killed_by="state.statistics-equal-reference/table-near/block/lookahead",
        story="A branch that can give the next block nothing is drafted nevertheless.",
        replace={"plan_branch": _even_the_guess},
    ),
    Fault(
        name="dropped-branch-uncounted",
        rule="statistics.lookahead-balance",
        killed_by="state.statistics-equal-reference/table-equal/rejection/adaptive",
        story="Only promoted branches are counted, so lookahead always seems to pay.",
        replace={"count_round": _dropped_uncounted},
    ),
    Fault(
        name="partial-acceptance-counts-as-mismatch",
        rule="statistics.lookahead-balance",
        killed_by="trace.lookahead/table-near/rejection",
        story="A guess that never met a bonus is counted as wrong.",
        replace={"count_round": _partial_is_mismatch},
    ),
    Fault(
        name="unexamined-counts-as-rejected",
        rule="statistics.proposals-balance",
        killed_by="trace.lookahead/table-near/rejection",
        story="Proposals behind a rejection are called rejected, and the acceptance rate per proposal looks worse.",
        replace={"count_round": _behind_is_rejected},
    ),
    Fault(
        name="accepted-behind-the-end-counted",
        rule="statistics.committed-rounds-only",
        killed_by="trace.endings/table-near/greedy",
        story="Accepted proposals behind the end of the output count as accepted although nobody sees them.",
        replace={"count_round": _accepted_past_the_end},
    ),
    Fault(
        name="bonus-counts-as-accepted",
        rule="statistics.emitted-balance",
        killed_by="state.statistics-equal-reference/table-equal/greedy/off",
        story="The target's own token is credited to the drafter.",
        replace={"count_round": _bonus_is_accepted},
    ),
    Fault(
        name="lookahead-never-given-up",
        rule="adaptive.disable-when-unpaid",
        source="oMLX 2166",
        killed_by="state.statistics-equal-reference/table-equal/block/adaptive",
        story="The adaptive rule is configured and never asked.",
        replace={"observe_branch": lambda adaptive, *_, **__: adaptive},
    ),
    Fault(
        name="adaptive-window-never-ends",
        rule="adaptive.window",
        killed_by="state.statistics-equal-reference/table-equal/block/adaptive",
        story="The counters are not reset at the window's end: a good start pays for everything behind it.",
        replace={"observe_branch": _sliding},
    ),
    Fault(
        name="consumed-guess-counts-as-wasted",
        rule="adaptive.planned-not-drawn",
        killed_by="state.statistics-equal-reference/table-equal/rejection/short-branches",
        story="The token that became the bonus is held against its branch.",
        replace={"observe_branch": _drafted_is_wasted},
    ),
)
