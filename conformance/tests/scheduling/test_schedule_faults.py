"""A fault at every call: the round never happened, nothing of it is told, and the others do not notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from eredu.contract.errors import AcceptanceError, EreduError
from eredu.contract.events import Event, RequestFinished
from eredu.contract.executor import CommitPlan, VerificationOutcome
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.terminal import FinishReason
from eredu.scheduling.phase import Phase
from eredu.scheduling.run import run_requests
from eredu_conformance.harness.instrumented_executor import METHODS, Call, Fault, InjectedFaultError
from eredu_conformance.harness.table_executor import TableExecutor
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request

SCRIPT = Script(64, (60, 61, 62), tuple(range(60)))
OPTIONS = GenerationOptions(max_tokens=20, max_proposals=3)
STEADY = MtpSchedulerOptions(adaptive_lookahead=False, prefill_chunk=1)
REQUESTS = [table_request(index, SCRIPT.prompt, OPTIONS) for index in range(3)]


def schedule(**arguments: Any) -> TableSchedule:
    return TableSchedule(SCRIPT.target, SCRIPT.drafter((5, 11)), options=STEADY, **arguments)


def state(table: TableSchedule, index: int) -> tuple[object, ...]:
    statistics = replace(table.scheduler.request_statistics(index), elapsed_s=0.0)
    return table.scheduler.output(index), statistics, table.tokens(index)


def run_through(table: TableSchedule) -> Iterator[tuple[list[tuple[object, ...]], Exception]]:
    """Take turns to the end; yield the state before each turn that raised, and what it raised."""
    while not table.scheduler.is_done:
        before = [state(table, index) for index in range(3)]
        try:
            table.scheduler.turn()
        except InjectedFaultError as error:
            yield before, error


@pytest.mark.parametrize("after", [False, True])
def test_a_request_that_cannot_be_opened_was_never_there(after: bool) -> None:
    table = schedule(faults=(Fault("open", 1, request=1, after=after),))
    table.add(REQUESTS[0])
    with pytest.raises(InjectedFaultError):
        table.add(REQUESTS[1])
    table.run(REQUESTS[2])
    assert [table.tokens(index) for index in range(3)] == [tuple(range(20)), (), tuple(range(20))]
    assert table.ends(1) == []


def test_a_fault_and_a_failing_release_are_both_told() -> None:
    table = schedule(faults=(Fault("wait", 2, request=1), Fault("close", 1, request=1))).add(*REQUESTS)
    ((_, error),) = list(run_through(table))
    assert "wait" in str(error)
    assert any("close" in note for note in error.__notes__)
    assert table.scheduler.finish(1) is FinishReason.FAILED
    assert table.tokens(2) == tuple(range(20))


@pytest.mark.parametrize("method", ["prefill", "draft", "submit", "branch", "wait", "commit"])
def test_run_requests_leaves_nothing_running_and_nothing_untold(method: str) -> None:
    table = schedule(faults=(Fault(method, 2, request=1),))
    events: list[Event] = []
    with pytest.raises(InjectedFaultError):
        run_requests(table.executor, REQUESTS, options=STEADY, sink=events.append)
    assert all(sequence.closed for sequence in table.tables.sequences)
    ends = {event.request: event.reason for event in events if isinstance(event, RequestFinished)}
    assert ends == {0: FinishReason.CANCELLED, 1: FinishReason.FAILED, 2: FinishReason.CANCELLED}


def test_run_requests_notes_what_fails_while_it_cancels_the_others() -> None:
    faults = (Fault("wait", 2, request=1), Fault("close", 1, request=2))
    with pytest.raises(InjectedFaultError, match="wait") as caught:
        run_requests(schedule(faults=faults).executor, REQUESTS, options=STEADY)
    assert any("close" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("times", [1, 99])
def test_run_requests_leaves_nothing_running_when_its_sink_is_interrupted(times: int) -> None:
    table = schedule()
    events: list[Event] = []

    def interrupt(event: Event) -> None:
        events.append(event)
        if len(events) <= times:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_requests(table.executor, REQUESTS, options=STEADY, sink=interrupt)
    assert all(sequence.closed for sequence in table.tables.sequences)
    assert sum(isinstance(event, RequestFinished) for event in events) == 3


@pytest.mark.parametrize("method", [name for name in METHODS if name not in {"open", "close"}])
def test_an_interrupt_inside_an_action_cancels_whom_it_serves(method: str) -> None:
    table = schedule()
    interrupted = False

    def hook(call: Call) -> None:
        nonlocal interrupted
        if not interrupted and call.method == method and call.request == 1:
            interrupted = True
            raise KeyboardInterrupt

    table.executor.hook = hook
    table.add(*REQUESTS)
    with pytest.raises(KeyboardInterrupt):
        table.scheduler.run()
    assert table.scheduler.finish(1) is FinishReason.CANCELLED
    served = table.executor.groups[-1] if method == "submit" else (1,)
    table.scheduler.run()
    for index in range(3):
        assert table.tokens(index) == tuple(range(len(table.tokens(index))))
        assert (len(table.tokens(index)) < 20) == (index in served)


# rule: events.append-only, events.one-publication-a-commit
@pytest.mark.parametrize("number", range(1, 19, 2))
def test_a_sink_that_raises_loses_nothing_and_hears_nothing_twice(number: int) -> None:
    expected = schedule().run(*REQUESTS).events
    table = schedule().add(*REQUESTS)
    raised = 0

    def react(event: Event) -> None:
        nonlocal raised
        if len(table.events) >= number and raised < 3:
            raised += 1
            raise InjectedFaultError("sink")

    table.react = react
    errors = 0
    while not table.scheduler.is_done:
        try:
            table.scheduler.turn()
        except InjectedFaultError:
            errors += 1
    assert errors == raised == 3
    assert table.events == expected


def test_a_trace_that_raises_fails_the_request_it_was_told_of() -> None:
    table = schedule()
    armed = False

    def trace(entry: dict[str, Any]) -> None:
        nonlocal armed
        if armed and entry["event"] == "resolve" and entry["request"] == 1:
            armed = False
            raise InjectedFaultError("trace")

    table.scheduler._trace._sink = trace
    table.add(*REQUESTS)
    armed = True
    assert len(list(run_through(table))) == 1
    assert table.scheduler.finish(1) is FinishReason.FAILED
    assert table.tokens(0) == table.tokens(2) == tuple(range(20))


# rule: verify.invalid-is-error
def test_numbers_that_no_correct_engine_produces_fail_the_request() -> None:
    drafter = SCRIPT.drafter()
    model = drafter.model.with_entry(0, (0.0,) * 63 + (1.0,))  # type: ignore[attr-defined]
    impossible = replace(drafter, model=model, raw=True)
    table = TableSchedule(SCRIPT.target, impossible)
    options = replace(OPTIONS, sampling=SamplingOptions(temperature=1.0))
    table.run(table_request(0, SCRIPT.prompt, options))
    assert table.tokens(0) == tuple(range(20))
    table = TableSchedule(SCRIPT.target, impossible)
    table.add(table_request(0, SCRIPT.prompt, options))
    while table.scheduler.phase(0) is not Phase.READY_TO_SUBMIT:
        table.scheduler.turn()
    record: Any = table.scheduler._states[0]
    block = record.round.block
    record.round.block = replace(block, rows=tuple(row * 0 for row in block.rows))
    with pytest.raises(AcceptanceError, match="q = 0"):
        table.scheduler.run()
    assert table.scheduler.finish(0) is FinishReason.FAILED
    assert table.scheduler.output(0) == ()


class ShortDrafts(TableExecutor):
    """Drafts one proposal too few."""

    def draft(self, sequence: Any, count: int, promoted: Any, constraint: Any) -> Any:
        return super().draft(sequence, max(0, count - 1), promoted, constraint)


class LongDrafts(TableExecutor):
    """Drafts one proposal too many."""

    def draft(self, sequence: Any, count: int, promoted: Any, constraint: Any) -> Any:
        return super().draft(sequence, count + 1, promoted, constraint)


class ShortBranches(TableExecutor):
    """Drafts branches of one token too few."""

    def branch(self, sequence: Any, block: Any, count: int) -> Any:
        return super().branch(sequence, block, count + 1)


class OtherOutcomes(TableExecutor):
    """Accepts more than was proposed."""

    def wait(self, sequence: Any, verification: Any) -> VerificationOutcome:
        outcome = super().wait(sequence, verification)
        return replace(outcome, accepted=len(outcome.proposals) + 1)


class LostPromotions(TableExecutor):
    """Promotes nothing, whatever was planned."""

    def commit(self, sequence: Any, plan: CommitPlan, branch: Any) -> Any:
        super().commit(sequence, plan, branch)
        return None


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        (ShortDrafts, "block of 2 tokens where 3"),
        (LongDrafts, "block of 4 tokens where 3"),
        (ShortBranches, "branch of 5 tokens where 4"),
        (OtherOutcomes, "accepted 4 of a block that has 3"),
        (LostPromotions, "promote 3 proposals and the executor returned None"),
    ],
)
def test_an_executor_that_breaks_its_contract_is_caught_before_anything_is_told(
    kind: type[TableExecutor], match: str
) -> None:
    executor = kind(SCRIPT.target, SCRIPT.drafter())
    events: list[Event] = []
    with pytest.raises(EreduError, match=match):
        run_requests(executor, [REQUESTS[0]], options=STEADY, sink=events.append)
    assert [type(event) for event in events] == [RequestFinished]
