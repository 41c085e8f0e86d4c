"""The scripted oracle: one experiment for each edge, with the numbers that reach it written down.

What sampling meets once in 2^24 draws, and what a table of budgets or a load-time check decides, is tried directly.
Every expected value is written out, or comes from plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from eredu_conformance.oracles.cases import VOCABULARY, table_case
from eredu_conformance.oracles.grammars import bracket_grammar
from eredu_conformance.oracles.scripts import LARGEST_COIN, ScriptedSource
from eredu_conformance.oracles.verdict import Broken, Verdict, expect, judge_cases
from eredu_reference import (
    AcceptanceError,
    AcceptanceRule,
    ConstraintError,
    DfaConstraint,
    Drafter,
    FinishReason,
    Pieces,
    ReferenceFailure,
    Report,
    Request,
    RequestError,
    Sampling,
    Schedule,
    decode_plain,
    decode_speculative,
)
from eredu_reference.caches import CacheRow, FullCache
from eredu_reference.decoding import Event
from eredu_reference.models import PaddedModel, ScriptedModel, TableModel, random_rows
from eredu_reference.models.coded import echo_rows
from eredu_reference.models.table import Probabilities
from eredu_reference.sources import FixedUniform

GREEDY = Sampling(temperature=0.0)
PROMPT = (0, 1)


class CountingCache(FullCache):
    """A full cache that counts what it takes."""

    appended = 0

    def append(self, row: CacheRow) -> None:
        """Take one input, and count it."""
        self.appended += 1
        super().append(row)


@dataclass(frozen=True)
class CountingTarget(TableModel):
    """A table whose caches are counted.

    Attributes:
        caches: Every cache that it gave out.
    """

    caches: list[CountingCache] = field(default_factory=list)

    def new_cache(self) -> CountingCache:
        """A counted cache."""
        self.caches.append(CountingCache())
        return self.caches[-1]


def _counting_target() -> TableModel:
    """Id x is followed by x + 1, with certainty."""
    return TableModel({(x,): row for x, row in enumerate(echo_rows(VOCABULARY + 1, VOCABULARY)[1:])})


def _script(entries: Sequence[int | Probabilities]) -> ScriptedModel:
    return ScriptedModel(VOCABULARY, len(PROMPT), tuple(entries))


def _right(length: int = 24) -> ScriptedModel:
    """The script that is always right for the counting target."""
    return _script([(PROMPT[-1] + 1 + position) % VOCABULARY for position in range(length)])


def _greedy(**changes: object) -> Request:
    base = Request(prompt=PROMPT, max_tokens=9, sampling=GREEDY, max_proposals=3)
    return replace(base, **changes)  # type: ignore[arg-type]


def _decode(
    pieces: Pieces, drafter: Drafter, request: Request, *, target: TableModel | None = None, coin: float | None = None
) -> Report:
    source = None if coin is None else ScriptedSource(coin)
    model = _counting_target() if target is None else target
    schedule = Schedule(adaptive_window=None)
    return decode_speculative(model, drafter, request, schedule=schedule, pieces=pieces, source=source)


def _refuses(what: str, error: type[ReferenceFailure], attempt: Callable[[], object]) -> None:
    try:
        seen = attempt()
    except error:
        return
    raise Broken(f"{what} must raise {error.__name__}, and gave {seen!r}")


def _coin_edges(pieces: Pieces) -> None:
    """Coin 0 does not accept p = 0; the largest coin accepts p = q; each by one round."""
    never = TableModel({(x,): (0.5, 0.5, 0.0, 0.0, 0.0) for x in range(VOCABULARY)})
    request = Request(prompt=PROMPT, max_tokens=2, max_proposals=1)
    report = _decode(pieces, Drafter(_script([4] * 4), raw=True), request, target=never, coin=0.0)
    expect(report.rounds[0].accepted, 0, what="accepted proposals of p = 0 by the coin 0")
    halves = TableModel({(x,): (0.5, 0.5, 0.0, 0.0, 0.0) for x in range(VOCABULARY)})
    request = replace(request, max_tokens=4, max_proposals=3)
    report = _decode(pieces, Drafter(halves), request, target=halves, coin=LARGEST_COIN)
    expect(report.rounds[0].accepted, 3, what="accepted proposals of p = q by the coin 1 - 2^-24")


def _rare_tokens(pieces: Pieces) -> None:
    """Probabilities of 1e-9 and below are compared as they are."""
    for target, draft, coin, due in (
        (1e-9, 2e-8, 0.5, False),
        (1e-9, 2e-8, 0.04, True),
        (1e-300, 1e-298, 0.5, False),
        (1e-300, 1e-298, 0.005, True),
        (0.0, 1e-320, 0.0, False),
    ):
        seen = pieces.accepts(FixedUniform(coin), target, draft)
        expect(bool(seen), due, what=f"whether the coin {coin} accepts p = {target}, q = {draft}")
    even = np.array([0.5, 0.5])
    nearly = np.array([0.5 + 2.0**-53, 0.5 - 2.0**-53])
    rows, drafts = [even, nearly, even], [even, even]
    threshold = pieces.block_threshold([1.0, 1.0, 1.0], 1, rows, drafts)
    expect(threshold, 1.0, what="h of a length of weight 1 with a residual of 1e-16")


def _errors(pieces: Pieces) -> None:
    """Numbers that no correct engine produces are errors."""
    row = np.array([0.25, 0.75])
    _refuses("the residual of p = q", AcceptanceError, lambda: pieces.residual(row, row, 1.0))
    _refuses("a drawn proposal with q = 0", AcceptanceError, lambda: pieces.accepts(FixedUniform(0.5), 0.5, 0.0))
    broken = _script([2, (float("nan"),) * VOCABULARY, 4])
    request = Request(prompt=PROMPT, max_tokens=6, max_proposals=2)
    _refuses("a NaN row of the drafter", AcceptanceError, lambda: _decode(pieces, Drafter(broken, raw=True), request))
    _refuses("a NaN row of the drafter", AcceptanceError, lambda: _decode(pieces, Drafter(broken), request))
    rows = dict(_counting_target().rows)
    rows[(3,)] = (float("nan"),) * VOCABULARY
    target = TableModel(rows)
    for drafter in (Drafter(_right()), Drafter(_right(), max_proposals=0)):
        for asked in (request, _greedy()):
            what = "a NaN row of the target"
            _refuses(what, AcceptanceError, lambda d=drafter, r=asked: _decode(pieces, d, r, target=target))  # type: ignore[misc]


def _scripted_drafters(pieces: Pieces) -> None:
    """Always right, right until j, always wrong, empty: the first round's accepted length is the script's."""
    plain = decode_plain(_counting_target(), _greedy())
    for rule in (None, AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED):
        request = _greedy() if rule is None else _greedy(sampling=Sampling(), acceptance=rule)
        for j in range(5):
            report = _decode(pieces, Drafter(_right().wrong_from(j)), request)
            expect(report.rounds[0].accepted, min(j, 3), what=f"accepted proposals of a script right until {j}, {rule}")
            expect(report.tokens, plain.tokens, what=f"tokens with a script right until {j}, {rule}")
        report = _decode(pieces, Drafter(_right(), max_proposals=0), request)
        expect(len(report.rounds), 9, what="rounds with an empty drafter")
        expect(report.tokens, plain.tokens, what="tokens with an empty drafter")


def _budgets(pieces: Pieces) -> None:
    """Every budget, by the caller and by the target's context, with K from 0 to 4: exactly that many tokens."""
    for budget in range(1, 9):
        for k in range(5):
            request = _greedy(max_tokens=budget, max_proposals=k)
            report = _decode(pieces, Drafter(_right()), request)
            expect(len(report.tokens), budget, what=f"tokens of a budget of {budget}, K = {k}")
            expect(report.finish, FinishReason.LENGTH, what="finish at the budget")
            small = replace(_counting_target(), context=budget + len(PROMPT) - 1)
            report = _decode(pieces, Drafter(_right()), _greedy(max_proposals=k, max_tokens=50), target=small)
            expect(len(report.tokens), budget, what=f"tokens of a context of {small.context}, K = {k}")
            expect(report.finish, FinishReason.CONTEXT, what="finish at the context")
            short = replace(_right(), context=budget + len(PROMPT) - 1)
            report = _decode(pieces, Drafter(short), _greedy(max_proposals=k))
            expect(len(report.tokens), 9, what=f"tokens with a drafter context of {short.context}, K = {k}")


def _end_of_sequence(pieces: Pieces) -> None:
    """An end-of-sequence id at each index of the output, of the drafts only, and of both."""
    for j in range(6):
        eos = (PROMPT[-1] + 1 + j) % VOCABULARY
        request = _greedy(eos_ids=frozenset({eos}), max_tokens=12)
        plain = decode_plain(_counting_target(), request)
        report = _decode(pieces, Drafter(_right()), request)
        expect((report.tokens, report.finish), (plain.tokens, plain.finish), what=f"output with the end at {j}")
        last = replace(request, max_tokens=j + 1)
        report = _decode(pieces, Drafter(_right()), last)
        expect(report.finish, FinishReason.EOS, what=f"finish by an end at {j} that is also the last of the budget")
        early = Drafter(_right().with_entry(j % 4, eos), raw=True)
        report = _decode(pieces, early, request)
        expect(
            (report.tokens, report.finish), (plain.tokens, plain.finish), what=f"output with a drafted end at {j % 4}"
        )


def _stop_sequences(pieces: Pieces) -> None:
    """A stop sequence at every split into rounds."""
    for j in range(5):
        stop = tuple((PROMPT[-1] + 1 + j + i) % VOCABULARY for i in range(3))
        for k in range(5):
            request = _greedy(stop_sequences=(stop,), max_proposals=k, max_tokens=15)
            plain = decode_plain(_counting_target(), request)
            report = _decode(pieces, Drafter(_right()), request)
            seen, due = (report.tokens, report.finish), (plain.tokens, plain.finish)
            expect(seen, due, what=f"output with the stop at {j}, K = {k}")


def _illegal_proposals(pieces: Pieces) -> None:
    """A proposal that the grammar forbids, at each index: the output is plain decoding's."""
    target = TableModel.random(VOCABULARY, order=2, seed=3)
    for sampling in (GREEDY, Sampling()):
        request = Request(
            prompt=PROMPT,
            max_tokens=12,
            sampling=sampling,
            acceptance=AcceptanceRule.COUPLED,
            max_proposals=3,
            constraint=bracket_grammar(VOCABULARY),
        )
        plain = decode_plain(target, request)
        script = _script([*plain.tokens, 4, 4, 4, 4])
        for j in range(4):
            report = _decode(pieces, Drafter(script.with_entry(j, 4), raw=True), request, target=target)
            seen, due = (report.tokens, report.finish), (plain.tokens, plain.finish)
            expect(seen, due, what=f"output with an illegal proposal at {j}")


def _pairs(pieces: Pieces) -> None:
    """Another tokenizer and another vocabulary are refused; padding behind the same vocabulary is never proposed."""
    case = table_case(1)
    other = TableModel.random(VOCABULARY, order=1, seed=5, context=4096)
    foreign = Drafter(replace(other, fingerprint="other"))
    smaller = Drafter(TableModel(dict.fromkeys(((x,) for x in range(VOCABULARY)), (0.25,) * 4)))
    request = replace(case.request, acceptance=AcceptanceRule.COUPLED)
    for name, drafter in (("a drafter of another tokenizer", foreign), ("a drafter of fewer ids", smaller)):
        events: list[Event] = []
        attempt = partial(decode_speculative, case.target, drafter, request, pieces=pieces, events=events)
        _refuses(name, RequestError, attempt)
        expect(events, [], what=f"events before {name} is refused")
    plain = decode_plain(case.target, request).tokens
    for target, padded in ((case.target, PaddedModel(other)), (PaddedModel(case.target), other)):
        report = decode_speculative(target, Drafter(padded), request, pieces=pieces)
        expect(report.tokens, plain, what="tokens of a pair with padded logits")


def _dead_end(pieces: Pieces) -> None:
    """A grammar that leaves no id and is not complete is an error, in plain rounds and behind proposals."""
    sequel = {(x, x + 1): x + 1 for x in range(3)}
    grammar = DfaConstraint(
        VOCABULARY, {(state + 1, token): after for (state, token), after in sequel.items()}, start=1
    )
    prompt = (PROMPT[0], 0)
    for k in (0, 3):
        request = _greedy(prompt=prompt, constraint=grammar, max_proposals=k)
        what = f"a grammar without an edge, K = {k},"
        _refuses(what, ConstraintError, lambda r=request: _decode(pieces, Drafter(_right()), r))  # type: ignore[misc]


def _one_forward_a_round(pieces: Pieces) -> None:
    """The target's cache takes every input once: the prompt's, and k + 1 a round, whatever is rejected."""
    target = CountingTarget(_counting_target().rows)
    report = _decode(pieces, Drafter(_right().wrong_from(1)), _greedy(), target=target)
    due = len(PROMPT) - 1 + sum(len(done.proposals) + 1 for done in report.rounds)
    expect(sum(cache.appended for cache in target.caches), due, what="inputs that the target's cache took")


def _branch(pieces: Pieces) -> None:
    """Promotion needs the whole block and the guess; nothing else."""
    request = _greedy(max_proposals=2, max_tokens=12)
    plain = decode_plain(_counting_target(), request).tokens
    # Proposals at 0 and 1, the guess at 2, the branch's tokens at 3 and 4.
    for name, wrong, outcome in (
        ("all right", None, "promoted"),
        ("a wrong first proposal", 0, "dropped"),
        ("a wrong last proposal", 1, "dropped"),
        ("a wrong guess", 2, "dropped"),
        ("a wrong token behind the guess", 3, "promoted"),
    ):
        script = _right() if wrong is None else _right().with_entry(wrong, (PROMPT[-1] + 2 + wrong) % VOCABULARY)
        report = _decode(pieces, Drafter(script), request)
        expect(report.rounds[0].branch.value, outcome, what=f"branch of the first round with {name}")
        expect(report.tokens, plain, what=f"tokens with {name}")


def _several_seeds(pieces: Pieces, seeds: Sequence[int]) -> None:
    """Scripts over random targets: right until j under `coupled`, for the j that the seed says."""
    for seed in seeds:
        rows = random_rows(VOCABULARY, VOCABULARY, seed=seed, sharpness=2.0)
        target = TableModel({(x,): row for x, row in enumerate(rows)})
        request = Request(prompt=PROMPT, max_tokens=8, seed=seed, acceptance=AcceptanceRule.COUPLED, max_proposals=3)
        plain = decode_plain(target, request).tokens
        j = seed % 4
        report = _decode(pieces, Drafter(_script(plain).wrong_from(j), raw=True), request, target=target)
        expect(report.tokens, plain, what=f"tokens with a script right until {j}, seed {seed}")
        expect(report.rounds[0].accepted, min(j, 3), what=f"accepted proposals, seed {seed}")


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on every script. Only the last experiment depends on the seeds."""
    return judge_cases(
        [
            ("coins at the edges", partial(_coin_edges, pieces)),
            ("rare tokens", partial(_rare_tokens, pieces)),
            ("impossible numbers", partial(_errors, pieces)),
            ("scripted drafters", partial(_scripted_drafters, pieces)),
            ("budgets", partial(_budgets, pieces)),
            ("end of sequence", partial(_end_of_sequence, pieces)),
            ("stop sequences", partial(_stop_sequences, pieces)),
            ("illegal proposals", partial(_illegal_proposals, pieces)),
            ("pairs", partial(_pairs, pieces)),
            ("dead ends", partial(_dead_end, pieces)),
            ("one forward a round", partial(_one_forward_a_round, pieces)),
            ("branches", partial(_branch, pieces)),
            ("seeds", partial(_several_seeds, pieces, seeds)),
        ]
    )
