"""The path oracle: for one seed, certain switches cannot change one token.

Under `coupled` and at temperature 0 the output is plain decoding's, whatever the drafter, K and lookahead. Under
`rejection` and `block` lookahead, its adaptive rule, the prefill chunks, and the other requests change nothing, and
K = 0 is plain decoding. Expected values come from the plain loop, which shares no piece with what is judged, or from
the engine's own other run, where equality is the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from eredu_conformance.oracles.cases import Case, cases, near_case, table_case
from eredu_conformance.oracles.verdict import Verdict, expect, judge_cases
from eredu_reference import AcceptanceRule, Pieces, Report, Schedule, decode_plain, decode_speculative

EVER = Schedule(adaptive_window=None)
"""Lookahead that never gives up."""
NEVER = Schedule(lookahead=False)
"""No lookahead."""
HASTY = Schedule(adaptive_window=1, prefill_chunk=2)
"""Lookahead that gives up at once where it does not pay, and a prefill in small chunks."""


def decode(case: Case, pieces: Pieces, schedule: Schedule = EVER) -> Report:
    """Decode a case with an engine."""
    return decode_speculative(case.target, case.drafter, case.request, schedule=schedule, pieces=pieces)


def _same_as_plain(case: Case, pieces: Pieces) -> None:
    plain = decode_plain(case.target, case.request)
    for schedule in (EVER, HASTY):
        report = decode(case, pieces, schedule)
        where = f"seed {case.request.seed}, K {case.request.max_proposals}, {schedule}"
        expect(report.tokens, plain.tokens, what=f"tokens, {where}")
        expect(report.finish, plain.finish, what=f"finish, {where}")
        expect(report.text, plain.text, what=f"text, {where}")


def _same_with_lookahead(case: Case, pieces: Pieces) -> None:
    expected = decode(case, pieces, NEVER)
    for schedule in (EVER, HASTY):
        report = decode(case, pieces, schedule)
        expect(report.tokens, expected.tokens, what=f"tokens, seed {case.request.seed}, {schedule} against none")
        expect(report.finish, expected.finish, what=f"finish, seed {case.request.seed}, {schedule} against none")


def _other_requests_change_nothing(case: Case, pieces: Pieces) -> None:
    other = case.with_request(seed=case.request.seed + 1000, prompt=(4, 0))
    alone = decode(case, pieces)
    decode(other, pieces)
    expect(decode(case, pieces).tokens, alone.tokens, what="tokens, alone and behind another request")


def _seed_counts(case: Case, pieces: Pieces) -> None:
    outputs = {decode(case.with_request(seed=seed), pieces).tokens for seed in range(8)}
    if len(outputs) < 2:
        expect(outputs, "several outputs", what="8 seeds of a law whose entropy is above 1 bit a token")


def _batch_index_counts(case: Case, pieces: Pieces) -> None:
    for index in range(2):
        numbered = case.with_request(batch_index=index, acceptance=AcceptanceRule.COUPLED)
        plain = decode_plain(numbered.target, numbered.request).tokens
        expect(decode(numbered, pieces).tokens, plain, what=f"tokens of request {index} of a call with one seed")


def _experiments(pieces: Pieces, seed: int) -> list[tuple[str, Callable[[], None]]]:
    """Equality with plain decoding first, because most faults show there."""
    rule = AcceptanceRule.BLOCK if seed % 2 else AcceptanceRule.REJECTION
    short = table_case(seed).greedy().with_request(max_proposals=1)
    first: list[tuple[str, Callable[[], None]]] = [("K = 1", partial(_same_as_plain, short, pieces))]
    second: list[tuple[str, Callable[[], None]]] = []
    for case in cases(seed):
        coupled = case.with_request(acceptance=AcceptanceRule.COUPLED)
        independent = case.with_request(acceptance=rule)
        plain = independent.with_request(max_proposals=0)
        first.append((f"{case.name}, coupled = plain", partial(_same_as_plain, coupled, pieces)))
        first.append((f"{case.name}, greedy = plain", partial(_same_as_plain, case.greedy(), pieces)))
        second.append((f"{case.name}, K = 0 = plain", partial(_same_as_plain, plain, pieces)))
        if not case.drafter.reads_hidden:
            second.append((f"{case.name}, lookahead", partial(_same_with_lookahead, independent, pieces)))
    return [
        ("seeds", partial(_seed_counts, table_case(seed), pieces)),
        ("other requests", partial(_other_requests_change_nothing, near_case(seed), pieces)),
        ("batch", partial(_batch_index_counts, near_case(seed), pieces)),
        *first,
        *second,
    ]


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on every case of every seed."""
    return judge_cases([item for seed in seeds for item in _experiments(pieces, seed)])
