"""Lookahead over scripted models: promoted, topped up, clipped, dropped, and given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.contract.statistics import RequestStatistics
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.table_pairs import Script, table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_reference.constraint import DfaConstraint

SCRIPT = Script(64, (60,), tuple(range(60)))
STEADY = MtpSchedulerOptions(adaptive_lookahead=False)


def run(
    wrong: tuple[int, ...] = (), *, schedule: MtpSchedulerOptions = STEADY, **options: Any
) -> tuple[TableSchedule, RequestStatistics]:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(wrong), options=schedule)
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(**options)))
    return table, table.scheduler.request_statistics(0)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_right_branches_save_every_later_draft(depth: int) -> None:
    rounds = 4
    table, books = run(max_tokens=rounds * (depth + 1), max_proposals=depth)
    assert books.rounds == rounds
    # The round before the last one plans for a last round that is full; the last one plans nothing.
    assert books.lookahead_blocks == books.lookahead_promoted == books.bonus_matches == rounds - 1
    assert books.lookahead_reused == depth * (rounds - 1)
    assert books.lookahead_discarded == books.bonus_mismatches == 0
    assert len(table.executor.called("draft")) == 1


# rule: promotion.top-up, draft.frontier-exact
@pytest.mark.parametrize(("depth", "branch"), [(2, 2), (3, 2), (4, 2), (4, 3)])
def test_a_short_branch_is_topped_up_from_its_frontier(depth: int, branch: int) -> None:
    rounds = 3
    table, books = run(max_tokens=rounds * (depth + 1), max_proposals=depth, lookahead_depth=branch)
    drafts = table.executor.called("draft")
    assert [None if call.arguments[1] is None else call.arguments[1].count for call in drafts] == [
        None,
        *([branch - 1] * (rounds - 1)),
    ]
    assert books.lookahead_reused == (branch - 1) * (rounds - 1)
    assert [call.arguments[0].count for call in table.executor.called("submit")] == [depth] * rounds


# rule: lookahead.planned-length
@pytest.mark.parametrize("left", range(1, 6))
def test_the_budget_clips_a_branch_before_it_is_drafted(left: int) -> None:
    """Behind one full round of 5 tokens `left` remain, of which a branch may propose all but the last."""
    table, books = run(max_tokens=5 + left, max_proposals=4)
    counts = [call.arguments[1] for call in table.executor.called("branch")]
    assert counts == ([] if left == 1 else [left])
    assert books.lookahead_discarded == 0
    assert table.tokens(0) == tuple(range(5 + left))


# rule: lookahead.drop-whole
@pytest.mark.parametrize(("depth", "place"), [(depth, place) for depth in (1, 2, 4) for place in range(depth + 1)])
def test_a_wrong_proposal_or_guess_drops_the_branch_whole(depth: int, place: int) -> None:
    table, books = run((place,), max_tokens=2 * depth + 2, max_proposals=depth)
    first = next(event for event in table.trace if event["event"] == "resolve")
    assert first["branch"] == "dropped"
    assert (first["consumed"], first["reused"], first["discarded"]) == (0, 0, depth + 1)
    assert books.bonus_mismatches == (place == depth)
    assert table.tokens(0) == tuple(range(2 * depth + 2))
    # Whatever was dropped, the next block is drafted anew from the committed boundary.
    assert table.executor.called("draft")[1].arguments[1] is None


# rule: promotion.full-acceptance-and-equal-bonus
def test_a_terminal_bonus_drops_the_branch_although_the_guess_was_right() -> None:
    table, books = run(max_tokens=50, max_proposals=3, eos_ids=frozenset({3}))
    assert table.tokens(0) == (0, 1, 2, 3)
    assert (books.lookahead_blocks, books.lookahead_promoted, books.lookahead_discarded) == (1, 0, 4)
    assert books.bonus_matches == books.bonus_mismatches == 0
    assert table.executor.called("bonus_guess") == []


def test_a_promoted_block_may_be_rejected() -> None:
    _, books = run((5,), max_tokens=10, max_proposals=3)
    assert books.lookahead_promoted == 1
    assert books.rejected == 1
    assert books.rounds_by_length[1] == 1


# rule: lookahead.exact-promotion-only
def test_a_plain_request_and_an_inexact_drafter_never_branch() -> None:
    table, books = run(max_tokens=9, max_proposals=0)
    assert table.executor.called("branch") == []
    assert books.lookahead_blocks == books.drafted == 0
    inexact = replace(SCRIPT.drafter(), exact_promotion=False)
    table = TableSchedule(SCRIPT.target, inexact, options=STEADY)
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=9)))
    assert table.executor.called("branch") == []
    assert table.tokens(0) == tuple(range(9))


def test_lookahead_off_is_the_reference_setting() -> None:
    table, books = run(max_tokens=20, schedule=STEADY.with_lookahead(False))
    assert table.executor.called("branch") == []
    assert books.lookahead_blocks == 0
    assert table.tokens(0) == tuple(range(20))
    opened = next(event for event in table.trace if event["event"] == "open")
    assert opened["lookahead_depth"] is None


# rule: adaptive.disable-when-unpaid
@pytest.mark.parametrize("window", [1, 2, 5])
def test_branches_that_never_pay_end_after_one_window_for_good(window: int) -> None:
    pair = table_pairs()["wrong"]
    table = TableSchedule(pair.target, pair.drafter, options=MtpSchedulerOptions(adaptive_window=window))
    table.run(table_request(0, (0, 1), GenerationOptions(max_tokens=20, max_proposals=2)))
    books = table.scheduler.request_statistics(0)
    assert len(table.executor.called("branch")) == books.lookahead_blocks == window
    assert books.lookahead_disabled == 1
    assert books.accepted == 0


def test_branches_that_pay_go_on_through_many_windows() -> None:
    table, books = run(max_tokens=58, max_proposals=1, schedule=MtpSchedulerOptions(adaptive_window=2))
    assert books.lookahead_blocks == 28
    assert books.lookahead_disabled == 0
    assert table.tokens(0) == tuple(range(58))


# rule: adaptive.window
def test_the_switch_is_the_request_s_own() -> None:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter((1, 4, 7)), options=MtpSchedulerOptions(adaptive_window=1))
    table.run(
        table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=12, max_proposals=2)),
        table_request(1, (60,) * 20, GenerationOptions(max_tokens=12, max_proposals=2)),
    )
    books = [table.scheduler.request_statistics(index) for index in range(2)]
    assert [item.lookahead_disabled for item in books] == [1, 0]
    assert table.scheduler.statistics().requests.lookahead_disabled == 1


# rule: lookahead.drafted-whole, constraints.drafting-stops-at-completion
@pytest.mark.parametrize("whole", range(4, 9))
def test_a_branch_stops_where_the_grammar_is_complete(whole: int) -> None:
    edges = {(state, token): state + 1 for state in range(whole) for token in range(64)}
    grammar = GrammarState.before(DfaConstraint(64, edges, frozenset({whole})))
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(), options=STEADY)
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=50, max_proposals=3), constraint=grammar))
    drafted = [event["drafted"] for event in table.trace if event["event"] == "branch"]
    assert drafted[0] == min(4, whole - 3)
    assert table.tokens(0) == tuple(range(whole))


# rule: lookahead.bounded
def test_a_second_branch_waits_for_nobody_where_branches_are_at_their_bound() -> None:
    options = MtpSchedulerOptions(max_branches=1, adaptive_lookahead=False)
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(), options=options)
    requests = [table_request(index, SCRIPT.prompt, GenerationOptions(max_tokens=30)) for index in range(3)]
    table.run(*requests)
    statistics = table.scheduler.statistics()
    assert statistics.peak_branches == 1
    assert statistics.peak_in_flight > 1
    assert all(table.tokens(index) == tuple(range(30)) for index in range(3))
    assert 0 < len(table.executor.called("branch")) < len(table.executor.called("submit"))
