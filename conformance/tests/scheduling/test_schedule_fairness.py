"""Turns: nobody waits longer than one turn of every other, bounds hold, and a schedule that cannot go on says so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from eredu.contract.errors import EreduError, SchedulerStalledError
from eredu.contract.events import Event
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.scheduling.action import Turn
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu_conformance.harness.instrumented_executor import METHODS
from eredu_conformance.harness.table_pairs import Script, table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request

PAIRS = table_pairs()
SCRIPT = Script(64, (60,), tuple(range(60)))


class TurnLog:
    """Takes turns, and knows which requests could have acted and which one did."""

    def __init__(self, table: TableSchedule) -> None:
        scheduler: Any = table.scheduler
        self.scheduler = scheduler
        self.served: list[tuple[int, ...]] = []
        serve = scheduler._serve

        def logged(turn: Turn[Any, Any, Any]) -> None:
            self.served.append(tuple(state.request.index for state in turn.members))
            serve(turn)

        scheduler._serve = logged

    def enabled(self) -> set[int]:
        ring = self.scheduler._ring
        return {state.request.index for state in ring if ring._next_action(state) is not None}

    def waiting_for_a_place(self) -> set[int]:
        return {state.request.index for state in self.scheduler._ring if state.phase is Phase.READY_TO_SUBMIT}

    def in_flight(self) -> int:
        return sum(state.phase in SUBMITTED for state in self.scheduler._ring)


# rule: scheduling.ring, scheduling.turn-uninterrupted
@pytest.mark.parametrize("requests", [1, 2, 3, 5])
@pytest.mark.parametrize(("max_in_flight", "max_branches"), [(1, 1), (2, 1), (4, 4)])
@pytest.mark.parametrize("max_group", [None, 1, 2])
@pytest.mark.parametrize("name", ["near", "wrong"])
def test_whoever_can_act_is_served_within_one_turn_of_every_other(
    requests: int, max_in_flight: int, max_branches: int, max_group: int | None, name: str
) -> None:
    pair = PAIRS[name]
    options = MtpSchedulerOptions(
        max_in_flight=max_in_flight, max_branches=max_branches, max_group=max_group, adaptive_lookahead=False
    )
    table = TableSchedule(pair.target, pair.drafter, options=options)
    for index in range(requests):
        table.add(table_request(index, (0, 1, 2, 3)[: index + 1], GenerationOptions(max_tokens=8 + index)))
    log = TurnLog(table)
    waited: Counter[int] = Counter()
    passed: Counter[int] = Counter()
    while not table.scheduler.is_done:
        enabled, queued, flying = log.enabled(), log.waiting_for_a_place(), log.in_flight()
        assert flying <= max_in_flight
        table.scheduler.turn()
        served = set(log.served[-1])
        assert served <= enabled
        waited.update(enabled - served)
        submitted = served <= queued
        assert len(served) == (min(len(queued), max_in_flight - flying, max_group or requests) if submitted else 1)
        passed.update(queued - served if submitted else ())
        for index in served | (set(waited) - enabled):
            waited[index] = 0
        for index in served if submitted else ():
            passed[index] = 0
        assert max(waited.values(), default=0) < requests
        assert max(passed.values(), default=0) <= max_in_flight * (requests - 1)
    statistics = table.scheduler.statistics()
    assert statistics.turns == len(log.served) == sum(count for _, count in statistics.actions)
    assert statistics.peak_live == requests
    assert statistics.peak_in_flight <= max_in_flight
    assert statistics.peak_branches <= max_branches
    assert statistics.submissions == dict(statistics.actions)["submit"]
    assert statistics.peak_group <= min(requests, max_in_flight, max_group or requests)


# rule: scheduling.in-flight-bound, lookahead.bounded
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_bounds_are_reached_when_there_is_work_for_them(bound: int) -> None:
    options = MtpSchedulerOptions(max_in_flight=bound, max_branches=bound, adaptive_lookahead=False)
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter((7, 21)), options=options)
    table.run(*(table_request(index, SCRIPT.prompt, GenerationOptions(max_tokens=40)) for index in range(4)))
    statistics = table.scheduler.statistics()
    assert (statistics.peak_in_flight, statistics.peak_branches) == (bound, bound)
    assert statistics.cross_request_drafts > 0


# rule: scheduling.every-request-ends
def test_a_schedule_in_which_nobody_can_act_is_an_error_naming_the_living() -> None:
    options = MtpSchedulerOptions()
    object.__setattr__(options, "max_in_flight", 0)
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(), options=options)
    table.add(table_request(5, SCRIPT.prompt, GenerationOptions()))
    for _ in range(2):
        table.scheduler.turn()
    with pytest.raises(SchedulerStalledError, match=r"5.*ready-to-submit"):
        table.scheduler.turn()
    table.scheduler.close()
    assert table.scheduler.is_done


def test_a_turn_without_anybody_does_nothing() -> None:
    table = TableSchedule(SCRIPT.target)
    table.scheduler.turn()
    assert table.scheduler.run().turns == 0


@pytest.mark.parametrize("method", [name for name in METHODS if name not in {"open", "close", "bonus_guess"}])
def test_a_turn_inside_an_executor_s_call_is_refused(method: str) -> None:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter())
    refused: list[str] = []

    def hook(call: Any) -> None:
        if call.method == method:
            with pytest.raises(EreduError, match="inside a callback"):
                table.scheduler.turn()
            refused.append(call.method)

    table.executor.hook = hook
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=12, max_proposals=2)))
    assert refused
    assert table.tokens(0) == tuple(range(12))


def test_a_turn_inside_an_event_is_refused_and_nothing_is_lost() -> None:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter())

    def react(event: Event) -> None:
        with pytest.raises(EreduError, match="inside a callback"):
            table.scheduler.turn()

    table.react = react
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=12)))
    assert table.tokens(0) == tuple(range(12))
    assert len(table.ends(0)) == 1


def test_an_event_may_add_a_request() -> None:
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter())
    options = GenerationOptions(max_tokens=5)

    def react(event: Event) -> None:
        if event.request < 2:
            table.react = None
            table.add(table_request(event.request + 1, SCRIPT.prompt, options))

    table.react = react
    table.run(table_request(0, SCRIPT.prompt, options))
    assert table.tokens(1) == tuple(range(5))
