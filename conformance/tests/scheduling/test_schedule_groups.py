"""Groups: members that are submitted together give what they give alone, and end alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from eredu.contract.errors import EreduError
from eredu.contract.executor import Submission
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.terminal import FinishReason
from eredu.scheduling.phase import Phase
from eredu_conformance.harness.instrumented_executor import Fault, InjectedFaultError
from eredu_conformance.harness.table_pairs import Script, table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request

PAIRS = table_pairs()
SCRIPT = Script(64, (60,), tuple(range(60)))
OPTIONS = GenerationOptions(max_tokens=20, max_proposals=3)
REQUESTS = [table_request(index, SCRIPT.prompt, OPTIONS) for index in range(3)]
STEADY = MtpSchedulerOptions(adaptive_lookahead=False)


def together(options: MtpSchedulerOptions = STEADY, **arguments: Any) -> TableSchedule:
    """Three requests whose first verifications are one group."""
    return TableSchedule(SCRIPT.target, SCRIPT.drafter((5, 11)), options=options, **arguments).add(*REQUESTS)


def run_on(table: TableSchedule) -> Iterator[BaseException]:
    """Take turns to the end; yield what they raise."""
    while not table.scheduler.is_done:
        try:
            table.scheduler.turn()
        except (InjectedFaultError, EreduError, KeyboardInterrupt) as error:
            yield error


def story(table: TableSchedule, index: int) -> tuple[object, ...]:
    """All that a request says of itself: tokens, finish, statistics without times, and its trace without turns."""
    statistics = replace(table.scheduler.request_statistics(index), drafting_s=0.0, waiting_s=0.0, elapsed_s=0.0)
    trace = [
        {name: value for name, value in event.items() if name not in {"turn", "max_group", "max_in_flight"}}
        for event in table.trace
        if event["request"] == index
    ]
    return table.tokens(index), table.scheduler.finish(index), statistics, trace


# rule: scheduling.group-changes-nothing
@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("name", sorted(PAIRS))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", AcceptanceRule)
def test_every_bound_on_groups_gives_the_same(joins: bool, name: str, temperature: float, rule: AcceptanceRule) -> None:
    pair = PAIRS[name]
    requests = [
        table_request(
            index,
            [0, 1, 2, 3][: index + 1],
            GenerationOptions(
                max_tokens=10 + 3 * index,
                max_proposals=index + 1,
                acceptance=rule,
                sampling=SamplingOptions(temperature=temperature),
                seed=index,
            ),
        )
        for index in range(4)
    ]

    def run(members: Sequence[int], max_group: int | None) -> TableSchedule:
        options = MtpSchedulerOptions(adaptive_lookahead=False, max_group=max_group, prefill_chunk=1)
        return TableSchedule(pair.target, pair.drafter, options=options, joins=joins).run(
            *(requests[index] for index in members)
        )

    alone = {index: story(run([index], None), index) for index in range(4)}
    for max_group in (None, 1, 2, 3):
        table = run(range(4), max_group)
        assert {index: story(table, index) for index in range(4)} == alone
        assert (max(map(len, table.executor.groups)) > 1) == (max_group != 1)


# rule: scheduling.ring
def test_a_group_is_traced_as_submissions_of_one_turn_in_the_order_of_the_ring() -> None:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(), options=STEADY).run(*REQUESTS)
    submitted: dict[int, list[int]] = {}
    for event in table.trace:
        if event["event"] == "submit":
            submitted.setdefault(event["turn"], []).append(event["request"])
    assert [tuple(members) for members in submitted.values()] == table.executor.groups
    assert (0, 1, 2) in table.executor.groups
    statistics = table.scheduler.statistics()
    assert (statistics.submissions, statistics.peak_group) == (len(table.executor.groups), 3)
    assert all(event["max_group"] is None for event in table.trace if event["event"] == "open")


# rule: scheduling.members-end-alone
@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("victims", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_members_fail_alone_and_the_first_error_tells_of_the_others(
    joins: bool, after: bool, victims: tuple[int, ...]
) -> None:
    table = together(joins=joins, faults=tuple(Fault("submit", 1, request=each, after=after) for each in victims))
    [error] = list(run_on(table))
    assert f"request {victims[0]}" in str(error)
    assert len(getattr(error, "__notes__", [])) == len(victims) - 1
    for index in range(3):
        failed = index in victims
        assert table.scheduler.finish(index) is (FinishReason.FAILED if failed else FinishReason.LENGTH)
        assert table.tokens(index) == (() if failed else tuple(range(20)))
        assert len(table.ends(index)) == 1
    turn = next(event["turn"] for event in table.trace if event["event"] in {"submit", "close"})
    told = [(event["event"], event["request"]) for event in table.trace if event["turn"] == turn]
    assert told == [("close" if index in victims else "submit", index) for index in range(3)]


# rule: scheduling.members-end-alone, cancellation.submitted-waits
@pytest.mark.parametrize("phase", [Phase.VERIFICATION_IN_FLIGHT, Phase.LOOKAHEAD_DRAFTING, Phase.LOOKAHEAD_READY])
@pytest.mark.parametrize("victim", range(3))
def test_a_member_that_is_cancelled_in_flight_leaves_the_others(phase: Phase, victim: int) -> None:
    table = together()
    while table.scheduler.phase(victim) is not phase:
        table.scheduler.turn()
    assert table.executor.groups == [(0, 1, 2)]
    table.scheduler.cancel(victim)
    assert len(table.tables.sequences[victim].target) == 0
    table.scheduler.run()
    for index in range(3):
        assert table.tokens(index) == (() if index == victim else tuple(range(20)))


def test_an_interrupt_of_a_submission_ends_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    table = together()

    def interrupt(_group: Sequence[Submission[Any, Any]]) -> list[Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(table.executor, "submit", interrupt)
    for _ in range(6):
        table.scheduler.turn()
    with pytest.raises(KeyboardInterrupt):
        table.scheduler.turn()
    monkeypatch.undo()
    table.scheduler.run()
    assert [table.scheduler.finish(index) for index in range(3)] == [FinishReason.CANCELLED] * 3
    assert all(sequence.closed for sequence in table.tables.sequences)


# rule: scheduling.members-end-alone
@pytest.mark.parametrize("raised", [InjectedFaultError("sink"), KeyboardInterrupt()])
def test_what_strikes_while_members_are_taken_up_ends_those_that_it_strikes(raised: BaseException) -> None:
    """An error is the member's that was told of; an interrupt ends those too that were not yet taken up."""
    table = together()
    record = table.trace.append
    armed = True

    def trace(event: dict[str, Any]) -> None:
        nonlocal armed
        if armed and event["event"] == "submit" and event["request"] == 1:
            armed = False
            raise raised
        record(event)

    table.scheduler._trace._sink = trace
    assert list(run_on(table)) == [raised]
    reason = FinishReason.FAILED if isinstance(raised, Exception) else FinishReason.CANCELLED
    last = FinishReason.LENGTH if isinstance(raised, Exception) else FinishReason.CANCELLED
    assert [table.scheduler.finish(index) for index in range(3)] == [FinishReason.LENGTH, reason, last]
    assert table.tokens(0) == tuple(range(20))


def test_a_second_interrupt_leaves_no_member_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    table = together()
    close = table.executor.close

    def interrupted(sequence: Any) -> None:
        close(sequence)
        raise KeyboardInterrupt

    table.executor.faults = (Fault("submit", 1, whole=True),)
    monkeypatch.setattr(table.executor, "close", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        table.scheduler.run()
    assert len(caught.value.__notes__) == 3
    assert all(sequence.closed for sequence in table.tables.sequences)
    table.scheduler.run()
    assert [len(table.ends(index)) for index in range(3)] == [1, 1, 1]


def test_an_executor_that_loses_a_member_s_entry_ends_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    table = together()
    submit = table.executor.submit
    monkeypatch.setattr(table.executor, "submit", lambda group: submit(group)[1:])
    errors = list(run_on(table))
    assert [str(error)[:45] for error in errors] == ["the executor answered a group of 3 with 2 ent"]
    assert [table.scheduler.finish(index) for index in range(3)] == [FinishReason.FAILED] * 3
