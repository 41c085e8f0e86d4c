"""Same path: what may not change a token does not, and plain decoding and the reference engine say the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.table_pairs import Pair, table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, reference_request, table_request
from eredu_reference.constraint import DfaConstraint
from eredu_reference.engine import decode_speculative
from eredu_reference.plain import decode_plain
from eredu_reference.requests import Schedule

PAIRS = table_pairs()
SAMPLED = SamplingOptions(temperature=1.0)
PROCESSED = SamplingOptions(
    temperature=0.8,
    top_k=3,
    top_p=0.95,
    min_p=0.02,
    logit_bias={1: 0.5},
    repetition_penalty=1.2,
    repeat_last_n=3,
    frequency_penalty=0.1,
    presence_penalty=0.1,
)
OFF = MtpSchedulerOptions().with_lookahead(False)


@st.composite
def samplings(draw: st.DrawFn) -> SamplingOptions:
    return draw(st.sampled_from([SamplingOptions(), SAMPLED, PROCESSED, SamplingOptions(repetition_penalty=1.5)]))


@st.composite
def grammars(draw: st.DrawFn) -> GrammarState | None:
    """None, or a random automaton over four ids whose accepting state is one step from everywhere."""
    if draw(st.booleans()):
        return None
    states = draw(st.integers(1, 3))
    edges = {(state, draw(st.integers(0, 3))): states for state in range(states)}
    for state in range(states):
        for token in draw(st.sets(st.integers(0, 3), max_size=3)):
            edges.setdefault((state, token), draw(st.integers(0, states - 1)))
    return GrammarState.before(DfaConstraint(4, edges, frozenset({states})))


@st.composite
def requests(draw: st.DrawFn, index: int = 0, acceptance: AcceptanceRule | None = None) -> GenerationRequest:
    depth = draw(st.integers(0, 4))
    options = GenerationOptions(
        max_tokens=draw(st.integers(1, 14)),
        sampling=draw(samplings()),
        seed=draw(st.integers(0, 2**64 - 1)),
        acceptance=acceptance or draw(st.sampled_from(AcceptanceRule)),
        max_proposals=depth,
        lookahead_depth=draw(st.none() | st.integers(2, 5)),
        eos_ids=draw(st.sets(st.integers(0, 3), max_size=1).map(frozenset)),
        stop_sequences=draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=1).map(tuple)),
    )
    prompt = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    return table_request(index, prompt, options, constraint=draw(grammars()))


@st.composite
def schedules(draw: st.DrawFn) -> MtpSchedulerOptions:
    return MtpSchedulerOptions(
        lookahead=draw(st.booleans()),
        adaptive_lookahead=draw(st.booleans()),
        adaptive_window=draw(st.integers(1, 3)),
        max_in_flight=draw(st.integers(1, 3)),
        max_branches=draw(st.integers(1, 2)),
        prefill_chunk=draw(st.sampled_from([1, 2, 512])),
    )


pairs = st.sampled_from(sorted(PAIRS)).map(PAIRS.__getitem__)


def possible(pair: Pair, *given_requests: GenerationRequest) -> bool:
    """A table with zeros and a grammar may leave a row without any token, which both engines refuse."""
    return pair is not PAIRS["sparse"] or all(request.constraint is None for request in given_requests)


def run(pair: Pair, schedule: MtpSchedulerOptions, *given_requests: GenerationRequest) -> TableSchedule:
    return TableSchedule(pair.target, pair.drafter, options=schedule).run(*given_requests)


def outcome(table: TableSchedule, index: int) -> tuple[object, ...]:
    return table.tokens(index), str(table.scheduler.finish(index))


# rule: draft.from-frontier, draft.recorded-distribution, randomness.address-once, terminal.eos-when-emitted
@given(pair=pairs, request=requests(), schedule=schedules())
def test_one_request_is_decoded_as_by_the_reference_engine(
    pair: Pair, request: GenerationRequest, schedule: MtpSchedulerOptions
) -> None:
    """Tokens, end, and every counter that both keep.

    Behind a block that ends the grammar the reference counts a branch of no tokens, where the scheduler begins none:
    with a grammar, the counters of branches are left out.
    """
    assume(possible(pair, request))
    table = run(pair, schedule, request)
    report = decode_speculative(
        pair.target,
        pair.drafter,
        reference_request(request),
        schedule=Schedule(
            lookahead=schedule.lookahead,
            adaptive_window=schedule.adaptive_window if schedule.adaptive_lookahead else None,
            prefill_chunk=schedule.prefill_chunk,
        ),
    )
    assert outcome(table, 0) == (report.tokens, report.finish.value)
    statistics: RequestStatistics = table.scheduler.request_statistics(0)
    expected = report.statistics.as_dict()
    if request.constraint is not None:
        expected = {name: value for name, value in expected.items() if "lookahead" not in name and "bonus" not in name}
    assert {name: getattr(statistics, name) for name in expected} == expected
    resolved = [event for event in table.trace if event["event"] == "resolve"]
    assert [(event["accepted"], tuple(event["emitted"])) for event in resolved] == [
        (round_.accepted, round_.emitted) for round_ in report.rounds
    ]
    drafted = Counter(len(round_.proposals) for round_ in report.rounds)
    assert drafted == Counter(event["rows"] - 1 for event in table.trace if event["event"] == "submit")
    assert sum(statistics.rounds_by_length) == len(report.rounds)
    assert dict(statistics.clipped) == Counter(round_.reason.value for round_ in report.rounds)


# rule: verify.coupled-shared-vector, verify.greedy-argmax, randomness.shared-noise
@given(pair=pairs, request=requests(acceptance=AcceptanceRule.COUPLED), schedule=schedules())
def test_coupled_and_greedy_requests_are_decoded_plainly_whatever_drafts(
    pair: Pair, request: GenerationRequest, schedule: MtpSchedulerOptions
) -> None:
    assume(possible(pair, request))
    plain = decode_plain(pair.target, reference_request(request))
    assert outcome(run(pair, schedule, request), 0) == (plain.tokens, plain.finish.value)
    undrafted = TableSchedule(pair.target, options=schedule).run(request)
    assert outcome(undrafted, 0) == (plain.tokens, plain.finish.value)


# rule: draft.empty-block-is-plain
@given(pair=pairs, request=requests())
def test_no_proposals_is_plain_decoding_under_every_rule(pair: Pair, request: GenerationRequest) -> None:
    assume(possible(pair, request))
    plain = decode_plain(pair.target, reference_request(request))
    undrafted = TableSchedule(pair.target).run(request)
    assert outcome(undrafted, 0) == (plain.tokens, plain.finish.value)
    assert undrafted.scheduler.request_statistics(0).drafted == 0


@st.composite
def batches(draw: st.DrawFn) -> list[GenerationRequest]:
    return [draw(requests(index=index)) for index in range(draw(st.integers(2, 4)))]


# rule: scheduling.requests-independent, placement.changes-no-token
@settings(max_examples=25)
@given(pair=pairs, batch=batches(), schedule=schedules(), data=st.data())
def test_neither_schedule_nor_company_nor_order_changes_a_request(
    pair: Pair, batch: list[GenerationRequest], schedule: MtpSchedulerOptions, data: st.DataObject
) -> None:
    """Others join late, leave early and are cancelled; the schedule is any; the order is any."""
    assume(possible(pair, *batch))
    alone = {request.index: outcome(run(pair, OFF, request), request.index) for request in batch}
    order = data.draw(st.permutations(batch))
    late = data.draw(st.integers(0, len(order) - 1))
    table = TableSchedule(pair.target, pair.drafter, options=schedule).add(*order[late:])
    joins = {data.draw(st.integers(0, 10)): request for request in order[:late]}
    waiting = [request for request in order[:late] if request not in joins.values()]
    victim = data.draw(st.none() | st.sampled_from([request.index for request in order]))
    cancel_at = data.draw(st.integers(0, 20))
    turn = 0
    while not table.scheduler.is_done or joins:
        if turn in joins:
            table.add(joins.pop(turn))
        if turn == 10:
            table.add(*waiting)
        if turn == cancel_at and victim is not None and victim in table.scheduler._states:
            table.scheduler.cancel(victim)
        table.scheduler.turn()
        turn += 1
    for request in order:
        if request.index not in table.scheduler._states:
            continue
        tokens, finish = outcome(table, request.index)
        if finish == "cancelled":
            assert request.index == victim
            expected: Any = alone[request.index][0]
            assert expected[: len(table.tokens(request.index))] == tokens
        else:
            assert (tokens, finish) == alone[request.index]


# rule: adaptive.no-clock
@pytest.mark.parametrize("rule", AcceptanceRule)
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_delays_decide_nothing(rule: AcceptanceRule, name: str) -> None:
    """A slow drafter, a slow target, slow anything: the very same trace, turn by turn."""
    pair = PAIRS[name]
    batch = [
        table_request(
            index,
            (index, 1),
            GenerationOptions(max_tokens=10, seed=index, sampling=SAMPLED, acceptance=rule, max_proposals=3),
        )
        for index in range(2)
    ]
    traces = []
    for delays_s in ({}, {"draft": 5.0, "branch": 9.0}, {"verification": 50.0, "commit": 1.0}, {"wait": 2.0}):
        table = TableSchedule(pair.target, pair.drafter, delays_s=delays_s).run(*batch)
        traces.append([{key: value for key, value in e.items() if key != "statistics"} for e in table.trace])
    assert all(trace == traces[0] for trace in traces)


def test_times_are_those_of_the_clock() -> None:
    pair = PAIRS["same"]
    delays_s = {"prefill": 1.0, "draft": 2.0, "branch": 3.0, "verification": 10.0, "commit": 0.5, "close": 100.0}
    table = TableSchedule(pair.target, pair.drafter, delays_s=delays_s)
    table.run(table_request(0, (0, 1), GenerationOptions(max_tokens=6, max_proposals=2)))
    statistics, schedule = table.scheduler.request_statistics(0), table.scheduler.statistics()
    # Prefill, draft, then twice: a verification of 10 s, beside the first of which a branch is drafted, and a commit.
    assert (statistics.rounds, statistics.lookahead_promoted) == (2, 1)
    assert statistics.drafting_s == 2.0 + 3.0
    assert statistics.waiting_s == (10.0 - 3.0) + 10.0
    assert statistics.elapsed_s == 1.0 + 2.0 + 10.0 + 0.5 + 10.0 + 0.5
    assert schedule.elapsed_s == statistics.elapsed_s + 100.0


@pytest.mark.nightly
@settings(settings.get_profile("nightly"))
@given(pair=pairs, request=requests(), schedule=schedules())
def test_one_request_is_decoded_as_by_the_reference_engine_over_fresh_examples(
    pair: Pair, request: GenerationRequest, schedule: MtpSchedulerOptions
) -> None:
    test_one_request_is_decoded_as_by_the_reference_engine.hypothesis.inner_test(  # type: ignore[attr-defined]
        pair, request, schedule
    )
