"""Where outputs end: an end id at every place of a block, a stop at every split, every budget, the context's end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.short_drafts import DRAFT_CONTEXT, SHORT_DRAFTS, short_draft
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Finish, Request, RunOptions, SkippedRunError

PAIRS = ("cycle", "cycle-wrong", "path")
"""One possible output each, with a draft that is right, wrong, and half right."""
DEPTHS = {1: Tier.STANDARD, 2: Tier.QUICK, 3: Tier.STANDARD}
LOOKING_AT = 8
"""Output tokens in which an ending is put at every place: two blocks and a bit."""

Requests = Callable[[str, int], tuple[Request, ...]]


def checks() -> Iterator[Check]:
    """One check for each claim, pair and K."""
    for name in PAIRS:
        for depth, tier in DEPTHS.items():
            for claim, (rule, about, option, requests) in CLAIMS.items():
                yield Check(
                    id=f"path.{claim}/{name}/k{depth}",
                    rule=rule,
                    tier=tier,
                    about=about,
                    needs=Needs(proposals=depth, options=frozenset({option} if option else ())),
                    run=partial(_run, name, depth, requests),
                )
    for name in SHORT_DRAFTS:
        yield Check(
            id=f"path.draft-context/{name}",
            rule="draft.clip",
            about="An output goes on to its budget where the draft's context ends before.",
            needs=Needs(proposals=3),
            run=partial(_run_draft_context, name),
        )
    for name in ("table-near", "order-2"):
        yield Check(
            id=f"path.context-limit/{name}",
            rule="terminal.budget-counts-tokens",
            tier=Tier.STANDARD,
            about="An output ends with the target's context, one token behind its last input.",
            needs=Needs(proposals=3),
            run=partial(_run_context, name),
        )


def _path(name: str) -> tuple[int, ...]:
    pair = crafted_pair(name)
    return pair.target.greedy_path(pair.prompt, LOOKING_AT)


def _requests(name: str, depth: int, options: list[RunOptions]) -> tuple[Request, ...]:
    prompt = crafted_pair(name).prompt
    return tuple(Request(prompt=prompt, options=replace(item, max_proposals=depth)) for item in options)


def eos_requests(name: str, depth: int) -> tuple[Request, ...]:
    """The end id is each token of the path in turn, and once all that a wrong draft proposes."""
    ends = [(token,) for token in dict.fromkeys(_path(name))]
    absent = tuple(sorted(set(range(crafted_pair(name).target.vocabulary)) - set(_path(name)[:4])))
    return _requests(name, depth, [RunOptions(max_tokens=LOOKING_AT, eos_ids=end) for end in (*ends, absent)])


def stop_requests(name: str, depth: int) -> tuple[Request, ...]:
    """Two and three ids from every place of the path on, one that only the prompt could begin, two at once."""
    path, prompt = _path(name), crafted_pair(name).prompt
    stops: list[tuple[tuple[int, ...], ...]] = [
        (path[i : i + size],) for size in (2, 3) for i in range(LOOKING_AT - size + 1)
    ]
    stops += [((prompt[-1], path[0]),), (path[1:4], path[2:4]), ((path[0], path[2]), path[4:6])]
    return _requests(name, depth, [RunOptions(max_tokens=LOOKING_AT, stop_sequences=stop) for stop in stops])


def budget_requests(name: str, depth: int) -> tuple[Request, ...]:
    """Budgets from 1 to 2 K + 2."""
    return _requests(name, depth, [RunOptions(max_tokens=tokens) for tokens in range(1, 2 * depth + 3)])


def order_requests(name: str, depth: int) -> tuple[Request, ...]:
    """One token that meets several conditions; the first in the rule's order names the finish."""
    path = _path(name)
    options = []
    for place in range(1, 5):
        end, stop = path[place], path[place - 1 : place + 1]
        options += [
            RunOptions(max_tokens=place + 1, eos_ids=(end,)),
            RunOptions(max_tokens=place + 1, eos_ids=(end,), stop_sequences=(stop,)),
            RunOptions(max_tokens=place + 1, stop_sequences=(stop,)),
        ]
    return _requests(name, depth, options)


CLAIMS: dict[str, tuple[str, str, str, Requests]] = {
    "eos-at-each-index": (
        "terminal.eos-when-emitted",
        "An end id ends the output where it is emitted, at every place of a block, and a proposed one ends nothing.",
        "eos_ids",
        eos_requests,
    ),
    "stop-at-each-split": (
        "terminal.stop-sequences-span-rounds",
        "A stop sequence is found wherever rounds split it, and not in the prompt.",
        "stop_sequences",
        stop_requests,
    ),
    "budget": (
        "terminal.nothing-behind",
        "A budget of 1 to 2 K + 2 tokens is met exactly.",
        "",
        budget_requests,
    ),
    "order-of-endings": (
        "terminal.order",
        "A token that meets several conditions is named by the first: stop, end id, budget.",
        "stop_sequences",
        order_requests,
    ),
}
"""Rule, sentence, needed option and requests by claim."""


def _run(name: str, depth: int, requests: Requests, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    trial = Trial(pair=crafted_pair(name), requests=requests(name, depth))
    compared = require_equal(session, trial, greedy_due, what=f"an ending with K = {depth} and the one of the rules")
    return Observation(text=f"{len(trial.requests)} endings, {compared} tokens equal")


def _run_draft_context(name: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    compared = 0
    for depth in (1, 3):
        options = RunOptions(max_tokens=2 * DRAFT_CONTEXT, max_proposals=depth)
        pair = short_draft(name)
        trial = Trial.of(pair, options)
        compared += require_equal(session, trial, greedy_due, what=f"an output past the draft's context, K = {depth}")
    return Observation(text=f"{compared} tokens equal, past a draft's context of {DRAFT_CONTEXT}")


def _run_context(name: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    pair = crafted_pair(name)
    room = 7
    prompt = pair.prompt + pair.target.greedy_path(pair.prompt, pair.context_limit - room - len(pair.prompt))
    compared = 0
    for depth in (0, 2, 3):
        options = RunOptions(max_tokens=4 * room, max_proposals=depth)
        trial = Trial(pair=pair, requests=(Request(prompt=prompt, options=options),))
        if depth == 0 and session.answers(trial)[0].finish is not Finish.CONTEXT:
            raise SkippedRunError("its plain decoding doesn't end with the checkpoint's context")
        compared += require_equal(
            session, trial, greedy_due, what=f"the context's end with K = {depth} and by the rules"
        )
    return Observation(text=f"{compared} tokens equal, each output one longer than the room")
