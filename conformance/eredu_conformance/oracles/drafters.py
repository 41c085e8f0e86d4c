"""Drafters and grammars that no run has: padded, of fewer ids, reading hidden state; a dead end; a stored prefix."""

from __future__ import annotations

from functools import partial

from eredu_conformance.harness.cases import VOCABULARY, table_case
from eredu_conformance.oracles.experiment import Broken, Experiment, expect, refuses
from eredu_conformance.oracles.scripts import PROMPT, decode, greedy_request, right_script
from eredu_reference import (
    AcceptanceRule,
    ConstraintError,
    DfaConstraint,
    Drafter,
    Pieces,
    PrefixStore,
    Request,
    RequestError,
    Schedule,
    decode_plain,
    decode_speculative,
)
from eredu_reference.decoding import Decoding, Event
from eredu_reference.models import HiddenModel, HiddenReader, PaddedModel, TableModel, random_rows, replay


def _vocabularies(pieces: Pieces) -> None:
    """A drafter of fewer ids is refused before anything happens; padding behind equal ids is never proposed."""
    case = table_case(1).with_request(acceptance=AcceptanceRule.COUPLED)
    smaller = Drafter(TableModel(dict.fromkeys(((x,) for x in range(VOCABULARY)), (0.25,) * 4)))
    events: list[Event] = []
    attempt = partial(decode_speculative, case.target, smaller, case.request, pieces=pieces, events=events)
    refuses("a drafter of fewer ids", RequestError, attempt)
    expect(events, [], what="events before a drafter of fewer ids is refused")
    plain = decode_plain(case.target, case.request).tokens
    other = TableModel.random(VOCABULARY, order=1, seed=5)
    for target, padded in ((case.target, PaddedModel(other)), (PaddedModel(case.target), other)):
        report = decode_speculative(target, Drafter(padded), case.request, pieces=pieces)
        expect(report.tokens, plain, what="tokens of a pair with padded logits")


def _hidden_state(pieces: Pieces) -> None:
    """What a drafter keeps of a round was made from the target's hidden state, each row from the one before it."""
    for seed in range(4):
        rows = tuple(random_rows(64, VOCABULARY, seed=seed, sharpness=2.0))
        others = rows if seed % 2 else tuple(row if code % 5 else (*row[1:], row[0]) for code, row in enumerate(rows))
        target, drafter = HiddenModel(rows), Drafter(HiddenReader(others), reads_hidden=True)
        request = Request(prompt=(1, 3, 0, 2, 2, 4), max_tokens=11, seed=seed, max_proposals=2 + seed % 2)

        decode_speculative(
            target,
            drafter,
            request,
            schedule=Schedule(adaptive_window=None),
            pieces=pieces,
            observe=partial(_check_frontier, target, drafter),
        )


def _check_frontier(target: HiddenModel, drafter: Drafter, kind: str, state: Decoding) -> None:
    if kind != "install" or state.frontier is None or state.promoted is not None:
        return
    cached = len(state.frontier.cache)
    if cached > min(state.frontier.trusted, len(state.committed) - 1):
        raise Broken(
            f"the drafter keeps {cached} rows, {state.frontier.trusted} of them from the target's hidden state"
        )
    hiddens = [(), *(output.hidden for output in replay(target, state.committed[:-1])[1])]
    fresh, _ = replay(drafter.model, state.committed[:cached], hiddens[:cached])
    expect(state.frontier.cache.content(), fresh.content(), what=f"drafter cache behind {cached} inputs")


def _dead_end(pieces: Pieces) -> None:
    """A grammar that leaves no id and is not complete is an error, in plain rounds and behind proposals."""
    sequel = {(x + 1, x + 1): x + 1 for x in range(3)}
    grammar = DfaConstraint(VOCABULARY, sequel, start=1)
    for k in (0, 3):
        request = greedy_request(prompt=(PROMPT[0], 0), constraint=grammar, max_proposals=k)
        what = f"a grammar without an edge, K = {k},"
        refuses(what, ConstraintError, lambda r=request: decode(pieces, Drafter(right_script()), r))  # type: ignore[misc]


def _stored_prefix(pieces: Pieces) -> None:
    """A cache is kept under the tokens that it holds, neither more nor fewer."""
    case, store = table_case(1), PrefixStore()
    decode_speculative(case.target, case.drafter, case.request, pieces=pieces, store=store)
    (entry,) = store.entries
    expect(entry.cache.content(), replay(case.target, entry.tokens)[0].content(), what="a stored cache, by its tokens")


EXPERIMENTS = (
    Experiment("scripted.vocabularies", "models whose rows and ids are not equally many", _vocabularies),
    Experiment("scripted.hidden-state", "a drafter that reads hidden state, and its cache", _hidden_state),
    Experiment("scripted.dead-end", "a state of a grammar that is neither complete nor has an edge", _dead_end),
    Experiment("scripted.stored-prefix", "what a store says of its entries", _stored_prefix),
)
"""Experiments of this file."""
