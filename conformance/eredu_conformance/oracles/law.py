"""The law oracle: the joint law of whole outputs, by enumeration, against plain decoding's by the chain rule.

The expected law multiplies table rows along every output; it draws nothing and calls no piece of the engine. The
difference is reported as total variation. Below 1e-10 it is rounding (measured: 1e-16), above it a fault; there is no
false-fail rate, because nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from eredu_conformance.harness.enumeration import (
    EnumeratingSource,
    NotEnumerable,
    TooManyPaths,
    enumerate_law,
    total_variation,
)
from eredu_conformance.oracles.cases import Case
from eredu_conformance.oracles.grammars import triggered_grammar
from eredu_conformance.oracles.verdict import Broken, Verdict, judge_cases
from eredu_reference import AcceptanceRule, Drafter, Model, Pieces, Request, Sampling, Schedule, decode_speculative
from eredu_reference.constraint import is_complete, mask_of
from eredu_reference.models import HiddenModel, HiddenReader, TableModel, random_rows, replay
from eredu_reference.rows import processed_row

TOLERANCE = 1e-10
"""Total variation that is still rounding."""

Law = dict[tuple[int, ...], float]
"""Probability of each output."""


def plain_law(case: Case) -> Law:
    """The joint law of plain decoding: products of processed rows along every output."""
    request, law = case.request, dict[tuple[int, ...], float]()
    start = None if request.constraint is None else request.constraint.start
    pending: list[tuple[tuple[int, ...], object, float]] = [((), start, 1.0)]
    while pending:
        output, grammar, weight = pending.pop()
        constraint = request.constraint
        done = len(output) == request.max_tokens or (output and output[-1] in request.eos_ids)
        if done or (output and is_complete(constraint, grammar)):
            law[output] = weight
            continue
        history = request.prompt + output
        row = processed_row(
            replay(case.target, history)[1][-1].logits,
            history=history,
            prompt_length=len(request.prompt),
            sampling=request.sampling,
            mask=mask_of(constraint, grammar),
        )
        for token in row.nonzero()[0].tolist():
            after = None if constraint is None else constraint.advance(grammar, token)
            pending.append(((*output, token), after, weight * float(row[token])))
    return law


def engine_law(case: Case, pieces: Pieces, schedule: Schedule) -> Law:
    """The joint law of an engine's published outputs, by enumeration."""

    def experiment(source: EnumeratingSource) -> tuple[int, ...]:
        return decode_speculative(
            case.target, case.drafter, case.request, schedule=schedule, pieces=pieces, source=source
        ).tokens

    return enumerate_law(experiment, most_paths=4_000)


def _same_law(case: Case, pieces: Pieces, schedule: Schedule) -> None:
    try:
        law = engine_law(case, pieces, schedule)
    except NotEnumerable:
        return
    except TooManyPaths as problem:
        raise Broken(f"{problem}, where the rules give a few hundred") from None
    distance = total_variation(law, plain_law(case))
    if distance > TOLERANCE:
        raise Broken(f"total variation {distance:.3g} from the law of plain decoding")


def _tables(seed: int, vocabulary: int, *, zeros: float = 0.2) -> tuple[TableModel, Drafter]:
    target = TableModel.random(vocabulary, order=2, seed=seed, zeros=zeros)
    drafter = TableModel.random(vocabulary, order=1, seed=seed + 77, zeros=zeros / 2)
    return target, Drafter(drafter)


def _request(rule: AcceptanceRule, length: int, **changes: object) -> Request:
    base = Request(prompt=(0, 1), max_tokens=length, acceptance=rule, max_proposals=2)
    return replace(base, **changes)  # type: ignore[arg-type]


OFF = Schedule(lookahead=False)
ON = Schedule(adaptive_window=1)


def _experiments(pieces: Pieces, seed: int) -> list[tuple[str, Callable[[], None]]]:
    rejection, block, coupled = AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED
    three, two, positive = _tables(seed, 3), _tables(seed, 2, zeros=0.0), _tables(seed + 5, 3, zeros=0.0)
    rows = tuple(random_rows(8, 2, seed=seed))
    # Every second row of the drafter is certain: fewer paths, and proposals that are rejected with certainty.
    certain = two[0], Drafter(TableModel({(0,): rows[0], (1,): (0.0, 1.0)}))
    hidden = HiddenModel(rows), Drafter(HiddenReader(tuple(random_rows(8, 2, seed=seed + 9))), reads_hidden=True)
    twin = three[0], Drafter(three[0])
    rare = TableModel({(0,): (1 - 1e-9, 1e-9), (1,): (1 - 1e-9, 1e-9)})
    tiny = rare, Drafter(TableModel({(0,): (1 - 2e-8, 2e-8), (1,): (1 - 2e-8, 2e-8)}))
    penalties = Sampling(frequency_penalty=1.1, presence_penalty=0.6, temperature=0.8)
    filters = Sampling(top_k=2, temperature=1.6, logit_bias={0: 0.7})
    plans: list[tuple[str, tuple[Model, Drafter], Request, Schedule]] = [
        ("two ids, rejection", two, _request(rejection, 4), OFF),
        ("two ids, block", two, _request(block, 4), OFF),
        ("rejection", positive, _request(rejection, 3), OFF),
        ("zeros, rejection", three, _request(rejection, 3), OFF),
        ("block", positive, _request(block, 3), OFF),
        ("coupled", three, _request(coupled, 3), OFF),
        ("tiny p", tiny, _request(rejection, 2), OFF),
        ("penalties", positive, _request(rejection, 3, sampling=penalties), OFF),
        ("filters", positive, _request(rejection, 3, sampling=filters), OFF),
        ("filters, block", positive, _request(block, 3, sampling=filters), OFF),
        ("p = q", twin, _request(rejection, 3), ON),
        ("grammar", positive, _request(rejection, 3, constraint=triggered_grammar(3)), OFF),
        ("end of sequence", positive, _request(rejection, 4, eos_ids=frozenset({2})), OFF),
        ("lookahead, rejection", certain, _request(rejection, 5), ON),
        ("lookahead, block", certain, _request(block, 5, lookahead_depth=2), ON),
        ("lookahead, hidden state", hidden, _request(rejection, 4, max_proposals=1), ON),
        ("lookahead, coupled", two, _request(coupled, 4), ON),
    ]
    return [
        (f"{name}, seed {seed}", partial(_same_law, Case(name, *models, request), pieces, schedule))
        for name, models, request, schedule in plans
    ]


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on the tables of every seed."""
    return judge_cases([item for seed in seeds for item in _experiments(pieces, seed)])
