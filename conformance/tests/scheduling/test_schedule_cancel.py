"""Cancellation in every phase and from every callback: what was committed stays, what was not never was."""

from __future__ import annotations

from typing import Any

import pytest

from eredu.contract.events import Event, RequestFinished
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.contract.terminal import FinishReason, TerminalWatch
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu.text.output import StreamingText
from eredu.text.pieces import Alphabet, TokenPieces
from eredu.text.vocabulary import Vocabulary
from eredu_conformance.harness.instrumented_executor import Call, Fault, InjectedFaultError
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_reference.models import replay

SCRIPT = Script(64, (60, 61, 62), tuple(range(60)))
OPTIONS = GenerationOptions(max_tokens=30, max_proposals=3)
STEADY = MtpSchedulerOptions(adaptive_lookahead=False, prefill_chunk=1)
BETWEEN_TURNS = [phase for phase in Phase if phase not in {Phase.RESOLUTION, Phase.COMPLETED, Phase.CANCELLED}]


def schedule(*, requests: int = 3, wrong: tuple[int, ...] = (5, 11), **arguments: Any) -> TableSchedule:
    arguments.setdefault("options", STEADY)
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(wrong), **arguments)
    return table.add(*(table_request(index, SCRIPT.prompt, OPTIONS) for index in range(requests)))


def turn_until(table: TableSchedule, index: int, phase: Phase, emitted: int) -> None:
    while table.scheduler.phase(index) is not phase or len(table.scheduler.output(index)) < emitted:
        assert table.scheduler.phase(index) is not Phase.COMPLETED, f"{phase} is never met"
        table.scheduler.turn()


def check_others(table: TableSchedule, cancelled: set[int]) -> None:
    for index in range(3):
        if index not in cancelled:
            assert table.tokens(index) == tuple(range(30))
            assert table.scheduler.finish(index) is FinishReason.LENGTH
    assert all(sequence.closed for sequence in table.tables.sequences)


# rule: cancellation.nothing-submitted-at-once, cancellation.submitted-waits, cancellation.leaves-no-trace
@pytest.mark.parametrize("phase", BETWEEN_TURNS)
@pytest.mark.parametrize("emitted", [0, 1, 9])
def test_cancelled_between_turns(phase: Phase, emitted: int) -> None:
    if phase is Phase.PREFILL:
        emitted = 0
    table = schedule()
    turn_until(table, 1, phase, emitted)
    before = table.scheduler.output(1), table.scheduler.request_statistics(1)
    told = len(table.events)
    del table.executor.calls[:]
    table.scheduler.cancel(1)
    assert table.scheduler.phase(1) is Phase.CANCELLED
    assert table.scheduler.finish(1) is FinishReason.CANCELLED
    calls = [call.method for call in table.executor.calls]
    assert calls == (["wait", "commit", "close"] if phase in SUBMITTED else ["close"])
    if phase in SUBMITTED:
        plan = table.executor.called("commit")[0].arguments[0]
        assert (plan.kept, plan.tokens, plan.promoted) == (0, (), None)
    sequence = table.tables.sequences[1]
    if phase is not Phase.PREFILL:
        expected, _ = replay(SCRIPT.target, [*SCRIPT.prompt, *before[0]][:-1])
        assert sequence.target.content() == expected.content()
    after = table.scheduler.output(1), table.scheduler.request_statistics(1)
    assert after[0] == before[0] == tuple(range(len(before[0])))
    assert after[1] == before[1].closed(after[1].elapsed_s)
    assert table.events[told:] == [RequestFinished(1, FinishReason.CANCELLED, after[1])]
    table.scheduler.run()
    assert table.scheduler.statistics().cancelled == 1
    check_others(table, {1})


@pytest.mark.parametrize("method", ["prefill", "draft", "submit", "branch", "wait", "bonus_guess", "commit"])
@pytest.mark.parametrize("number", [1, 2])
def test_cancelled_in_the_middle_of_an_action_takes_effect_behind_it(method: str, number: int) -> None:
    """As from a signal handler. Resolution is a phase that only its own action sees."""
    table = schedule()
    seen: list[tuple[Phase, tuple[int, ...]]] = []

    def hook(call: Call) -> None:
        if call.method == method and call.request == 1 and len(table.executor.called(method, 1)) == number:
            seen.append((table.scheduler.phase(1), table.scheduler.output(1)))
            table.scheduler.cancel(1)
            assert table.scheduler.phase(1) is seen[0][0]

    table.executor.hook = hook
    while not seen:
        table.scheduler.turn()
    assert table.scheduler.phase(1) is Phase.CANCELLED
    if method in {"wait", "bonus_guess", "commit"}:
        assert seen[0][0] is Phase.RESOLUTION
        assert len(table.scheduler.output(1)) > len(seen[0][1])
    else:
        assert table.scheduler.output(1) == seen[0][1]
    table.scheduler.run()
    assert table.tokens(1) == table.scheduler.output(1) == tuple(range(len(table.tokens(1))))
    check_others(table, {1})


def test_cancelled_inside_an_event_of_an_end() -> None:
    """Cancelling one request tells its end, whose callback cancels the next, and so on, in one call."""
    table = schedule()

    def react(event: Event) -> None:
        if isinstance(event, RequestFinished) and event.request > 0:
            table.scheduler.cancel(event.request - 1)

    table.react = react
    for _ in range(20):
        table.scheduler.turn()
    table.scheduler.cancel(2)
    assert table.scheduler.is_done
    assert [event.request for event in table.events if isinstance(event, RequestFinished)] == [2, 1, 0]


@pytest.mark.parametrize("turns", range(0, 60, 4))
def test_closing_ends_everybody_at_any_time(turns: int) -> None:
    table = schedule()
    for _ in range(turns):
        table.scheduler.turn()
    table.scheduler.close()
    assert table.scheduler.is_done
    for index in range(3):
        assert len(table.ends(index)) == 1
        assert table.tokens(index) == tuple(range(len(table.tokens(index))))
    assert all(sequence.closed for sequence in table.tables.sequences)
    table.scheduler.close()
    assert len(table.executor.called("close")) == 3


def test_closing_goes_on_behind_a_failure_and_raises_it() -> None:
    table = schedule()
    for _ in range(20):
        table.scheduler.turn()
    table.executor.faults = (Fault("close", 1, after=True),)
    with pytest.raises(InjectedFaultError):
        table.scheduler.close()
    assert table.scheduler.is_done
    assert len(table.executor.called("close")) == 3
    assert all(len(table.ends(index)) == 1 for index in range(3))


def test_text_held_back_by_a_possible_stop_is_told_when_the_request_is_cancelled() -> None:
    script = Script(4, (0,), (0, 1, 2, 0, 1, 2))
    pieces = TokenPieces(Vocabulary(("a", "b", "c", "d")), Alphabet.SENTENCEPIECE)
    table = TableSchedule(script.target, script.drafter())
    options = GenerationOptions(max_tokens=6, max_proposals=0)
    table.add(table_request(0, (0,), options, text=StreamingText.before(pieces, ("bcd",))))
    while len(table.scheduler.output(0)) < 3:
        table.scheduler.turn()
    assert table.text(0) == "a"
    table.scheduler.cancel(0)
    assert table.text(0) == "abc"
    assert table.tokens(0) == (0, 1, 2)


def test_a_failing_text_fails_only_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    table = schedule()
    turn_until(table, 1, Phase.READY_TO_DRAFT, 4)

    def broken(self: TerminalWatch, *, ended: bool) -> tuple[TerminalWatch, str]:
        raise InjectedFaultError("text")

    with monkeypatch.context() as patch:
        patch.setattr(TerminalWatch, "take_text", broken)
        with pytest.raises(InjectedFaultError):
            table.scheduler.cancel(1)
    assert table.scheduler.finish(1) is FinishReason.FAILED
    table.scheduler.run()
    check_others(table, {1})
