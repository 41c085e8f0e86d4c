"""What bounds a request over scripted models: its context, its checkpoint, its prompt, its number."""

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

SCRIPT = Script(32, (30, 31), tuple(range(24)))
"""Output position n holds id n, so that an id tells where it belongs."""


def grammar_whole_after(length: int) -> GrammarState:
    edges = {(state, token): state + 1 for state in range(length) for token in range(32)}
    return GrammarState.before(DfaConstraint(32, edges, frozenset({length})))


def wrongs(depth: int) -> list[tuple[int, ...]]:
    """Drafters: always right, and wrong at one index of the first block or at the bonus behind it."""
    return [(), *((index,) for index in range(depth + 2))]


def run(
    depth: int,
    wrong: tuple[int, ...],
    *,
    schedule: MtpSchedulerOptions | None = None,
    constraint: GrammarState | None = None,
    script: Script = SCRIPT,
    cap: int = 64,
    **options: Any,
) -> TableSchedule:
    generation = GenerationOptions(max_proposals=depth, **options)
    drafter = script.drafter(wrong, max_proposals=cap)
    table = TableSchedule(script.target, drafter, options=schedule)
    return table.run(table_request(0, script.prompt, generation, constraint=constraint))


@pytest.mark.parametrize("depth", range(5))
def test_the_target_context_bounds_the_output(depth: int) -> None:
    """The last token is never an input, so the output may be one longer than what the context leaves."""
    for context in range(2, 9):
        script = SCRIPT._replace(context=context)
        for wrong in wrongs(depth):
            table = run(depth, wrong, script=script, max_tokens=99)
            assert table.tokens(0) == tuple(range(context - 2 + 1))
            assert table.scheduler.finish(0) is FinishReason.CONTEXT
            assert len(table.tables.sequences[0].target) <= context


# rule: capability.validated-cap
def test_the_checkpoint_cap_bounds_the_proposals() -> None:
    statistics = run(4, (), cap=2, max_tokens=9).scheduler.request_statistics(0)
    assert (statistics.requested_depth, statistics.effective_depth) == (4, 2.0)
    assert dict(statistics.clipped) == {"capability": 3}


# rule: commit.leading-token-uncached, scheduling.prefill-in-chunks
@pytest.mark.parametrize("prompt", [(30,), (30, 31), tuple(range(20))])
@pytest.mark.parametrize("chunk", [1, 2, 3, 512])
def test_prefill_leaves_the_last_prompt_token_to_the_first_round(prompt: tuple[int, ...], chunk: int) -> None:
    script = SCRIPT._replace(prompt=prompt)
    table = run(2, (), schedule=MtpSchedulerOptions(prefill_chunk=chunk), script=script, max_tokens=5)
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
        run(2, (), constraint=grammar_whole_after(0))


def test_request_numbers_are_unique_and_known() -> None:
    table = TableSchedule(SCRIPT.target)
    request = table_request(3, (1,), GenerationOptions(max_proposals=0))
    table.add(request)
    with pytest.raises(OptionError, match="request 3 was added twice"):
        table.add(request)
    for question in (table.scheduler.output, table.scheduler.phase, table.scheduler.finish, table.scheduler.cancel):
        with pytest.raises(OptionError, match=r"no request 4.*\[3\]"):
            question(4)
