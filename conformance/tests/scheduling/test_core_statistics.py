"""The statistics: folded round by round, balanced, summed, and told as JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import StatisticsError
from eredu.contract.statistics import (
    BranchOutcome,
    BranchResolution,
    ClipReason,
    RequestStatistics,
    RoundReport,
    ScheduleStatistics,
)


@st.composite
def reports(draw: st.DrawFn) -> RoundReport:
    drafted = draw(st.integers(0, 4))
    accepted = draw(st.integers(0, drafted))
    target = draw(st.integers(0 if accepted else 1, 1))
    rejected = int(target == 1 and accepted < drafted)
    branch = draw(st.sampled_from(BranchOutcome)) if drafted else BranchOutcome.NONE
    if branch is BranchOutcome.PROMOTED and (accepted < drafted or target == 0):
        branch = BranchOutcome.DROPPED
    length = 0 if branch is BranchOutcome.NONE else draw(st.integers(2, 5))
    promoted = branch is BranchOutcome.PROMOTED
    compared = promoted or (branch is BranchOutcome.DROPPED and accepted == drafted and target == 1)
    return RoundReport(
        drafted=drafted,
        accepted=accepted,
        rejected=rejected,
        target_tokens=target,
        clip=draw(st.sampled_from(ClipReason)),
        branch=BranchResolution(branch, length, draw(st.integers(0, length - 1)) if promoted else 0, compared=compared),
        disabled=draw(st.booleans()),
    )


def fold(rounds: list[RoundReport]) -> RequestStatistics:
    statistics = RequestStatistics(prompt_tokens=3, requested_depth=4)
    for report in rounds:
        statistics = statistics.with_round(report)
    return statistics


# rule: statistics.committed-rounds-only
@given(st.lists(reports(), max_size=8))
def test_statistics_are_the_sums_of_their_rounds(rounds: list[RoundReport]) -> None:
    statistics = fold(rounds)
    assert statistics.rounds == len(rounds)
    assert statistics.drafted == sum(report.drafted for report in rounds)
    assert statistics.accepted == sum(report.accepted for report in rounds)
    assert statistics.rejected == sum(report.rejected for report in rounds)
    assert statistics.unexamined == statistics.drafted - statistics.accepted - statistics.rejected
    assert statistics.emitted == sum(report.accepted + report.target_tokens for report in rounds)
    assert statistics.target_rows == sum(report.drafted + 1 for report in rounds)
    assert dict(statistics.clipped) == {
        reason.value: count for reason in ClipReason if (count := sum(r.clip is reason for r in rounds))
    }
    for length, count in enumerate(statistics.rounds_by_length):
        assert count == sum(report.accepted == length for report in rounds)
    for place, (drafted, accepted) in enumerate(
        zip(statistics.drafted_by_position, statistics.accepted_by_position + (0,) * 8, strict=False)
    ):
        assert drafted == sum(report.drafted > place for report in rounds)
        assert accepted == sum(report.accepted > place for report in rounds)
    branches = [report for report in rounds if report.branch.outcome is not BranchOutcome.NONE]
    assert statistics.lookahead_blocks == len(branches)
    assert statistics.lookahead_promoted == sum(report.branch.outcome is BranchOutcome.PROMOTED for report in rounds)
    assert (
        statistics.lookahead_drafted
        == statistics.lookahead_consumed + statistics.lookahead_reused + statistics.lookahead_discarded
    )
    assert statistics.bonus_matches + statistics.bonus_mismatches == sum(report.branch.compared for report in rounds)
    assert statistics.lookahead_disabled == sum(report.disabled for report in rounds)


@given(st.lists(st.lists(reports(), max_size=4), max_size=4))
def test_a_total_is_the_fold_of_all_rounds(parts: list[list[RoundReport]]) -> None:
    total = RequestStatistics.total(fold(rounds) for rounds in parts)
    whole = fold([report for rounds in parts for report in rounds])
    assert total == dataclasses.replace(whole, prompt_tokens=3 * len(parts), requested_depth=4 if parts else 0)
    total.check()


# rule: statistics.proposals-balance, statistics.emitted-balance, statistics.lookahead-balance
@pytest.mark.parametrize(
    "field",
    [
        "emitted",
        "target_tokens",
        "target_rows",
        "rounds",
        "drafted",
        "accepted",
        "rejected",
        "unexamined",
        "lookahead_blocks",
        "lookahead_promoted",
        "lookahead_drafted",
        "lookahead_consumed",
        "lookahead_reused",
        "lookahead_discarded",
        "bonus_matches",
        "bonus_mismatches",
    ],
)
@pytest.mark.parametrize("error", [1, -1])
def test_each_counter_off_by_one_breaks_the_balance(field: str, error: int) -> None:
    full = RoundReport(
        drafted=2,
        accepted=2,
        rejected=0,
        target_tokens=1,
        clip=ClipReason.REQUEST,
        branch=BranchResolution(BranchOutcome.PROMOTED, 3, 2, compared=True),
    )
    statistics = fold([full])
    wrong = dataclasses.replace(statistics, **{field: getattr(statistics, field) + error})
    with pytest.raises(StatisticsError):
        wrong.check()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds_by_length", (0, 1, 0)),
        ("rounds_by_length", (0, 0, 2)),
        ("drafted_by_position", (1,)),
        ("drafted_by_position", (0, 2)),
        ("accepted_by_position", (2, 0)),
        ("accepted_by_position", (0, 2)),
        ("clipped", ()),
    ],
)
def test_each_histogram_must_agree_with_its_counter(field: str, value: object) -> None:
    statistics = fold([RoundReport(drafted=2, accepted=2, rejected=0, target_tokens=1, clip=ClipReason.REQUEST)])
    with pytest.raises(StatisticsError):
        dataclasses.replace(statistics, **{field: value}).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "report",
    [
        RoundReport(drafted=1, accepted=2, rejected=0, target_tokens=1, clip=ClipReason.REQUEST),
        RoundReport(drafted=1, accepted=1, rejected=1, target_tokens=1, clip=ClipReason.REQUEST),
        RoundReport(drafted=2, accepted=0, rejected=1, target_tokens=0, clip=ClipReason.REQUEST),
        RoundReport(
            drafted=1,
            accepted=1,
            rejected=0,
            target_tokens=1,
            clip=ClipReason.REQUEST,
            branch=BranchResolution(BranchOutcome.DROPPED, 1, 2),
        ),
    ],
)
def test_an_impossible_round_is_refused(report: RoundReport) -> None:
    with pytest.raises(StatisticsError):
        RequestStatistics().with_round(report)


def test_means_and_times() -> None:
    empty = RequestStatistics()
    assert (empty.tokens_per_round, empty.effective_depth) == (0.0, 0.0)
    rounds = [
        RoundReport(drafted=3, accepted=1, rejected=1, target_tokens=1, clip=ClipReason.REQUEST, drafting_s=1.0),
        RoundReport(
            drafted=0, accepted=0, rejected=0, target_tokens=1, clip=ClipReason.BUDGET, drafting_s=0.5, waiting_s=2.0
        ),
    ]
    statistics = fold(rounds).closed(4.0)
    assert (statistics.tokens_per_round, statistics.effective_depth) == (1.5, 1.5)
    assert (statistics.drafting_s, statistics.waiting_s, statistics.elapsed_s) == (1.5, 2.0, 4.0)


@given(st.lists(reports(), max_size=4))
def test_json_names_every_counter(rounds: list[RoundReport]) -> None:
    statistics = fold(rounds)
    schedule = ScheduleStatistics(turns=3, actions=(("draft", 3),), requests=statistics)
    told = json.loads(json.dumps(schedule.to_json()))
    assert set(told) == {item.name for item in dataclasses.fields(ScheduleStatistics)}
    assert told["actions"] == {"draft": 3}
    counters = {item.name for item in dataclasses.fields(RequestStatistics)}
    assert set(told["requests"]) == counters | {"tokens_per_round", "effective_depth"}
    assert told["requests"]["clipped"] == dict(statistics.clipped)
    assert told["requests"]["emitted"] == statistics.emitted
