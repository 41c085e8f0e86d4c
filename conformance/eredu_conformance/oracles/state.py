"""The state oracle: after every step, what an engine holds is what its committed tokens give, fed one at a time.

It looks at the caches of target and drafter, hidden states, the grammar, the books and what was published: after each
installation, at the frontier of each block and branch, after a cancellation or an injected failure at every point of a
round, and after caches were reused. Expected contents come from fresh caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from eredu_conformance.oracles.cases import Case, cases
from eredu_conformance.oracles.verdict import Broken, Verdict, expect, judge_cases
from eredu_reference import (
    AcceptanceRule,
    Cancelled,
    FinishReason,
    Model,
    Pieces,
    PrefixStore,
    Report,
    Schedule,
    decode_plain,
    decode_speculative,
)
from eredu_reference.adaptive import Adaptive
from eredu_reference.caches import Cache, CacheRow, Hidden
from eredu_reference.decoding import Decoding
from eredu_reference.frontier import Frontier

EVER = Schedule(adaptive_window=None)


class Injected(Exception):  # noqa: N818
    """A failure that the oracle injects."""


def fresh_cache(model: Model, tokens: Sequence[int], hiddens: Sequence[Hidden] | None = None) -> Cache:
    """A cache fed one token at a time, each at its own position.

    Args:
        model: Whose cache.
        tokens: The inputs.
        hiddens: The target's hidden state behind each input, for a drafter that reads it.
    """
    cache = model.new_cache()
    for index, token in enumerate(tokens):
        hidden = () if hiddens is None or index == 0 else hiddens[index - 1]
        cache.append(CacheRow(token, index, hidden))
    return cache


def _check_target(case: Case, state: Decoding) -> None:
    inputs = state.committed[:-1]
    expected = fresh_cache(case.target, inputs)
    expect(len(state.target_cache), len(inputs), what="target cache length, against all committed tokens but the last")
    expect(state.target_cache.content(), expected.content(), what=f"target cache behind {len(inputs)} inputs")
    if case.drafter.reads_hidden:
        hiddens = tuple(case.target.hidden(fresh_cache(case.target, inputs[: i + 1])) for i in range(len(inputs)))
        expect(state.hiddens, hiddens, what="hidden states of the target")


def _check_frontier(case: Case, state: Decoding, frontier: Frontier, known: tuple[int, ...]) -> None:
    """Check a drafter's cache against a fresh one behind the same tokens, as far as hidden states are the target's."""
    cached = len(frontier.cache)
    if cached > len(known) - 1:
        raise Broken(f"the drafter's cache holds {cached} of {len(known)} known tokens; the last one is never in it")
    if not case.drafter.reads_hidden:
        expected = fresh_cache(case.drafter.model, known[:cached]).content()
        expect(frontier.cache.content(), expected, what=f"drafter cache behind {cached} inputs")
        return
    trusted = min(frontier.trusted, cached)
    if state.work is None and state.promoted is None:
        expect(cached, trusted, what="rows of the drafter's cache, all of them made from the target's hidden state")
    expected = fresh_cache(case.drafter.model, known[:trusted], state.hiddens).content()
    expect(frontier.cache.content()[:trusted], expected, what=f"drafter cache, its {trusted} rows from the target")
    tokens = tuple(row.token for row in frontier.cache.content())  # type: ignore[attr-defined]
    expect(tokens, known[:cached], what="tokens in the drafter's cache")


def check_state(case: Case, kind: str, state: Decoding) -> None:
    """Check what must hold after an event. Raises `Broken`."""
    if kind == "install":
        _check_target(case, state)
        grammar = None if case.request.constraint is None else case.request.constraint.start
        for token in state.output:
            grammar = None if case.request.constraint is None else case.request.constraint.advance(grammar, token)
        expect(state.grammar, grammar, what="state of the grammar")
        known = state.committed + (() if state.promoted is None else state.promoted.tokens)
        if state.frontier is not None:
            _check_frontier(case, state, state.frontier, known)
    if kind in {"draft", "branch"} and state.work is not None:
        block = state.work.block
        if block.frontier is not None and block.tokens:
            known = state.committed + block.tokens
            expect(len(block.frontier.cache), len(known) - 1, what="inputs of the drafter behind its block")
            _check_frontier(case, state, block.frontier, known)
        if kind == "branch" and state.work.branch is not None and state.work.branch.frontier is not None:
            known = state.committed + block.tokens + state.work.branch.tokens
            _check_frontier(case, state, state.work.branch.frontier, known)


def _run_checked(case: Case, pieces: Pieces) -> None:
    report = decode_speculative(
        case.target, case.drafter, case.request, schedule=EVER, pieces=pieces, observe=partial(check_state, case)
    )
    _check_perfect(case, report)


def _check_perfect(case: Case, report: Report) -> None:
    if not case.perfect or case.request.sampling.temperature != 0:
        return
    for done in report.rounds:
        if done.accepted != len(done.proposals):
            raise Broken(
                f"a drafter that is the target was rejected: {done.accepted} of {len(done.proposals)} accepted"
            )


POINTS = ("draft", "submit", "branch", "wait", "resolve", "resolve-branch", "commit", "publish")
"""Events at which a round is interrupted. A cancellation acts at all but `commit`; a failure at all but `publish`."""


def interrupt(case: Case, pieces: Pieces, point: str, error: type[Exception]) -> tuple[Decoding, Adaptive] | None:
    """Interrupt the second round of a request at a point.

    Returns:
        Its state, and its adaptive switch right before; None where that round has no such point.
    """
    seen: list[Decoding] = []
    rounds, fired = [0], [False]
    switches: list[Adaptive] = []

    def observe(kind: str, state: Decoding) -> None:
        seen.append(state)
        rounds[0] += kind == "plan"
        switches.append(state.adaptive)
        if kind == point and rounds[0] == 2:
            fired[0] = True
            raise error(f"at {point} of round 2")

    with suppress(Injected):
        decode_speculative(case.target, case.drafter, case.request, pieces=pieces, observe=observe)
    return (seen[-1], switches[-1]) if fired[0] else None


def _cancelled_at_the_end(case: Case, pieces: Pieces) -> None:
    """A cancellation from the callback that shows the last tokens: the output had ended, and stays as it ended."""
    states: list[Decoding] = []

    def observe(kind: str, state: Decoding) -> None:
        states.append(state)
        if kind == "publish" and state.finish is not None:
            raise Cancelled("behind the last token")

    plain = decode_plain(case.target, case.request)
    report = decode_speculative(case.target, case.drafter, case.request, pieces=pieces, observe=observe)
    expect(
        (report.tokens, report.finish), (plain.tokens, plain.finish), what="output cancelled at its last publication"
    )
    _check_target(case, states[-1])


def _interrupted(case: Case, pieces: Pieces, point: str, error: type[Exception]) -> None:
    """After an interruption caches, books and output are those of the rounds before it."""
    interrupted = interrupt(case, pieces, point, error)
    if interrupted is None:
        return
    state, switch = interrupted
    where, rounds = f"after {error.__name__} at {point} of round 2", 2 if point == "publish" else 1
    plain = decode_plain(case.target, case.request)
    expect(state.published, state.output, what=f"published tokens, against committed ones, {where}")
    expect(state.published, plain.tokens[: len(state.published)], what=f"output {where}")
    expect(len(state.reports), rounds, what=f"rounds in force {where}")
    expect(state.books.rounds, rounds, what=f"rounds in the books {where}")
    expect(state.books.emitted, len(state.output), what=f"emitted tokens in the books {where}")
    expect(state.books.drafted, sum(len(done.proposals) for done in state.reports), what=f"drafted tokens {where}")
    if error is Cancelled and rounds == 1:
        expect(state.finish, FinishReason.CANCELLED, what=f"finish {where}")
    expect(state.adaptive, switch, what=f"adaptive switch {where}")
    _check_target(case, state)
    if state.frontier is not None:
        _check_frontier(case, state, state.frontier, state.committed)


def _warm_equals_cold(case: Case, pieces: Pieces) -> None:
    """Another request, A, B behind A, and A again, from one store: outputs and caches are those of cold starts."""
    store = PrefixStore()
    first = case.with_request(acceptance=AcceptanceRule.COUPLED, max_tokens=4, eos_ids=frozenset(), constraint=None)
    plain = decode_plain(first.target, first.request)
    behind = first.with_request(prompt=(*first.request.prompt, *plain.tokens, 0), max_tokens=6)
    # One token shorter than what the store holds: only a part of the entry would serve, which not every cache can give.
    shorter = first.with_request(prompt=(*behind.request.prompt[:-3], 1, 2), max_tokens=6)
    other = first.with_request(prompt=(3, 3, 1, 0, 4, 1))
    for number, item in enumerate((other, first, behind, first, shorter, behind)):
        cold = decode_plain(item.target, item.request).tokens
        report = decode_speculative(
            item.target,
            item.drafter,
            item.request,
            schedule=EVER,
            pieces=pieces,
            store=store,
            observe=partial(check_state, item),
        )
        expect(report.tokens, cold, what=f"tokens of run {number}, warm against cold")
        for entry in store.entries:
            content = fresh_cache(item.target, entry.tokens).content()
            expect(entry.cache.content(), content, what=f"a stored cache after run {number}")


def _experiments(pieces: Pieces, seed: int) -> list[tuple[str, Callable[[], None]]]:
    found: list[tuple[str, Callable[[], None]]] = []
    rules = [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED]
    for number, case in enumerate(cases(seed)):
        stochastic = case.with_request(acceptance=rules[(number + seed) % 3])
        found.append((f"{case.name}, greedy, seed {seed}", partial(_run_checked, case.greedy(), pieces)))
        found.append((f"{case.name}, sampled, seed {seed}", partial(_run_checked, stochastic, pieces)))
        coupled = case.with_request(acceptance=AcceptanceRule.COUPLED)
        point = POINTS[(number + seed) % len(POINTS)]
        if point != "commit":
            found.append(
                (f"{case.name}, cancel, seed {seed}", partial(_interrupted, coupled, pieces, point, Cancelled))
            )
        if number % 4 == seed % 4:
            found.append(
                (f"{case.name}, cancel at the end, seed {seed}", partial(_cancelled_at_the_end, coupled, pieces))
            )
        if point != "publish":
            found.append(
                (f"{case.name}, failure, seed {seed}", partial(_interrupted, coupled, pieces, point, Injected))
            )
        if case.name in {"table", "recurrent", "window", "pooled", "hidden", "position-echo", "length-echo"}:
            found.append((f"{case.name}, reuse, seed {seed}", partial(_warm_equals_cold, case, pieces)))
    return found


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on every case of every seed."""
    return judge_cases([item for seed in seeds for item in _experiments(pieces, seed)])
