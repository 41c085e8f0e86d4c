"""Whole outputs over scripted models: every end at every index of a block, every budget, every context."""

from __future__ import annotations

from typing import Any

import pytest

from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.terminal import FinishReason
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_reference.constraint import DfaConstraint

LENGTH = 24
SCRIPT = Script(32, (30, 31), tuple(range(LENGTH)))
"""Output position n holds id n, so that an id tells where it belongs."""

DEPTHS = range(5)
SCHEDULES = [MtpSchedulerOptions(), MtpSchedulerOptions().with_lookahead(False)]


def grammar_whole_after(length: int) -> GrammarState:
    edges = {(state, token): state + 1 for state in range(length) for token in range(32)}
    return GrammarState.before(DfaConstraint(32, edges, frozenset({length})))


def wrongs(depth: int) -> list[tuple[int, ...]]:
    """Drafters: always right, and wrong at one index of the first block or at the bonus behind it."""
    return [(), *((index,) for index in range(depth + 2))]


def run(
    depth: int,
    wrong: tuple[int, ...],
    schedule: MtpSchedulerOptions,
    *,
    constraint: GrammarState | None = None,
    script: Script = SCRIPT,
    drafter_context: int = 4096,
    cap: int = 64,
    **options: Any,
) -> TableSchedule:
    generation = GenerationOptions(max_proposals=depth, **options)
    drafter = script.drafter(wrong, context=drafter_context, max_proposals=cap)
    table = TableSchedule(script.target, drafter, options=schedule)
    return table.run(table_request(0, script.prompt, generation, constraint=constraint))


# rule: terminal.budget-counts-tokens
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_budget_is_met_exactly(depth: int, schedule: MtpSchedulerOptions) -> None:
    for budget in range(1, 2 * depth + 3):
        for wrong in wrongs(depth):
            table = run(depth, wrong, schedule, max_tokens=budget)
            assert table.tokens(0) == tuple(range(budget))
            assert table.scheduler.finish(0) is FinishReason.LENGTH
            books = table.scheduler.request_statistics(0)
            assert books.unexamined == sum(books.drafted_by_position) - books.accepted - books.rejected
            if not wrong:
                assert books.unexamined == books.rejected == 0
                assert books.rounds == -(-budget // (depth + 1))


# rule: terminal.nothing-behind, commit.terminal-token-committed
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("reason", [FinishReason.EOS, FinishReason.STOP, FinishReason.GRAMMAR])
def test_every_end_is_honoured_at_every_index(depth: int, schedule: MtpSchedulerOptions, reason: FinishReason) -> None:
    for last in range(2 * depth + 3):
        for wrong in wrongs(depth):
            table = run(
                depth,
                wrong,
                schedule,
                max_tokens=LENGTH,
                eos_ids=frozenset({last}) if reason is FinishReason.EOS else frozenset(),
                stop_sequences=((last,), (last, last + 1)) if reason is FinishReason.STOP else (),
                constraint=grammar_whole_after(last + 1) if reason is FinishReason.GRAMMAR else None,
            )
            assert table.tokens(0) == tuple(range(last + 1))
            assert table.scheduler.finish(0) is reason


# rule: terminal.stop-sequences-span-rounds
@pytest.mark.parametrize("depth", [1, 3])
def test_a_stop_sequence_may_cross_rounds(depth: int) -> None:
    for last in range(1, 9):
        for wrong in wrongs(depth):
            sequence = tuple(range(max(0, last - 3), last + 1))
            table = run(depth, wrong, SCHEDULES[0], max_tokens=LENGTH, stop_sequences=(sequence,))
            assert (table.tokens(0), table.scheduler.finish(0)) == (tuple(range(last + 1)), FinishReason.STOP)


# rule: terminal.order
@pytest.mark.parametrize(
    ("constraint", "options", "reason"),
    [
        (4, {"max_tokens": 4, "eos_ids": frozenset({3}), "stop_sequences": ((3,),)}, FinishReason.STOP),
        (4, {"max_tokens": 4, "eos_ids": frozenset({3})}, FinishReason.GRAMMAR),
        (None, {"max_tokens": 4, "eos_ids": frozenset({3})}, FinishReason.EOS),
        (None, {"max_tokens": 4}, FinishReason.LENGTH),
    ],
)
@pytest.mark.parametrize("depth", DEPTHS)
def test_one_token_with_several_reasons_names_the_first(
    constraint: int | None, options: dict[str, Any], reason: FinishReason, depth: int
) -> None:
    grammar = None if constraint is None else grammar_whole_after(constraint)
    table = run(depth, (), SCHEDULES[0], constraint=grammar, **options)
    assert table.tokens(0) == (0, 1, 2, 3)
    assert table.scheduler.finish(0) is reason


# rule: terminal.eos-when-emitted
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_an_end_that_only_the_drafter_sees_ends_nothing(depth: int) -> None:
    """At position n the wrong drafter proposes n + 1, which here is the end-of-sequence id."""
    for position in range(depth + 1):
        table = run(depth, (position,), SCHEDULES[0], max_tokens=position + 1, eos_ids=frozenset({position + 1}))
        assert table.tokens(0) == tuple(range(position + 1))
        assert table.scheduler.finish(0) is FinishReason.LENGTH


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_target_context_bounds_the_output(depth: int) -> None:
    """The last token is never an input, so the output may be one longer than what the context leaves."""
    for context in range(2, 9):
        script = SCRIPT._replace(context=context)
        for wrong in wrongs(depth):
            table = run(depth, wrong, SCHEDULES[0], script=script, max_tokens=99)
            assert table.tokens(0) == tuple(range(context - 2 + 1))
            assert table.scheduler.finish(0) is FinishReason.CONTEXT
            assert len(table.tables.sequences[0].target) <= context


def test_a_budget_as_long_as_the_context_is_the_budget() -> None:
    table = run(2, (), SCHEDULES[0], script=SCRIPT._replace(context=6), max_tokens=5)
    assert table.scheduler.finish(0) is FinishReason.LENGTH


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_drafter_context_bounds_the_proposals_and_not_the_output(depth: int, schedule: MtpSchedulerOptions) -> None:
    for context in range(1, 12):
        table = run(depth, (), schedule, drafter_context=context, max_tokens=12)
        books = table.scheduler.request_statistics(0)
        assert table.tokens(0) == tuple(range(12))
        assert dict(books.clipped).get("drafter-context", 0) > 0
        assert all(
            block.count == 0 or 2 + position + block.count - 1 <= context
            for block, position in zip(
                [call.arguments[0] for call in table.executor.called("submit")],
                [event.position for event in table.events if hasattr(event, "position")],
                strict=True,
            )
        )


# rule: capability.validated-cap
def test_the_checkpoint_cap_bounds_the_proposals() -> None:
    books = run(4, (), SCHEDULES[0], cap=2, max_tokens=9).scheduler.request_statistics(0)
    assert (books.requested_depth, books.effective_depth) == (4, 2.0)
    assert dict(books.clipped) == {"capability": 3}


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_drafting_stops_where_the_grammar_is_complete(depth: int, schedule: MtpSchedulerOptions) -> None:
    for whole in range(1, 2 * depth + 3):
        table = run(depth, (), schedule, max_tokens=LENGTH, constraint=grammar_whole_after(whole))
        books = table.scheduler.request_statistics(0)
        # The last token of the sentence is a proposal or, where no proposal is left to make, the bonus.
        assert books.drafted - books.accepted == books.rejected == books.unexamined == 0
        last = (whole - 1) % (depth + 1) + 1
        assert dict(books.clipped).get("grammar", 0) == (last < depth)


# rule: commit.leading-token-uncached, scheduling.prefill-in-chunks
@pytest.mark.parametrize("prompt", [(30,), (30, 31), tuple(range(20))])
@pytest.mark.parametrize("chunk", [1, 2, 3, 512])
def test_prefill_leaves_the_last_prompt_token_to_the_first_round(prompt: tuple[int, ...], chunk: int) -> None:
    script = SCRIPT._replace(prompt=prompt)
    table = run(2, (), MtpSchedulerOptions(prefill_chunk=chunk), script=script, max_tokens=5)
    assert table.tokens(0) == (0, 1, 2, 3, 4)
    calls = table.executor.called("prefill")
    assert len(calls) == max(1, -(-(len(prompt) - 1) // chunk))
    assert [event["left"] for event in table.trace if event["event"] == "prefill"] == [
        max(0, len(prompt) - 1 - chunk * turn) for turn in range(1, len(calls) + 1)
    ]


@pytest.mark.parametrize(
    ("prompt", "options", "match"),
    [
        ((), GenerationOptions(), "at least one"),
        ((1,) * 9, GenerationOptions(), "9 tokens and the target takes 8"),
        ((1, 32), GenerationOptions(), "prompt token 32"),
        ((-1,), GenerationOptions(), "prompt token -1"),
        ((1,), GenerationOptions(sampling=SamplingOptions(logit_bias={40: 1.0})), "logit_bias id 40"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_before_anything_opens(
    prompt: tuple[int, ...], options: GenerationOptions, match: str
) -> None:
    table = TableSchedule(SCRIPT._replace(context=8).target)
    with pytest.raises(OptionError, match=match):
        table.add(table_request(0, prompt, options))
    assert table.executor.calls == []
    assert table.scheduler.is_done


def test_a_grammar_that_is_complete_before_the_first_token_is_refused() -> None:
    with pytest.raises(OptionError, match="complete before"):
        run(2, (), SCHEDULES[0], constraint=grammar_whole_after(0))


def test_a_prompt_that_fills_the_context_still_gives_one_token() -> None:
    table = run(3, (), SCHEDULES[0], script=SCRIPT._replace(context=2), max_tokens=9)
    assert table.tokens(0) == (0,)
    assert table.scheduler.finish(0) is FinishReason.CONTEXT


def test_request_numbers_are_unique_and_known() -> None:
    table = TableSchedule(SCRIPT.target)
    request = table_request(3, (1,), GenerationOptions(max_proposals=0))
    table.add(request)
    with pytest.raises(OptionError, match="request 3 was added twice"):
        table.add(request)
    for question in (table.scheduler.output, table.scheduler.phase, table.scheduler.finish, table.scheduler.cancel):
        with pytest.raises(OptionError, match=r"no request 4.*\[3\]"):
            question(4)
