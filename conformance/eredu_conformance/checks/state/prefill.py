"""Prefill: chunks of any size, and runs behind other runs, leave the same state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import first_difference, greedy_due, require_equal
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.forced_pairs import SENSITIVE, forced_pair
from eredu_conformance.checks.state.simulation import greedy_rounds
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import CheckpointPair
from eredu_conformance.protocol import Answer, Request, RunOptions, Schedule

CHUNKS = (1, 2, 3, 5, 8, 19)
PROMPT, TOKENS = 20, 6
QUICK = ("order-2", "window-6")


def checks() -> Iterator[Check]:
    """One check of chunks and one of warmth for each sensitive pair, without and with proposals."""
    for name in SENSITIVE:
        for depth in (0, 2):
            yield Check(
                id=f"state.chunk-invariance/{name}/k{depth}",
                rule="scheduling.prefill-in-chunks",
                tier=Tier.QUICK if name in QUICK and depth else Tier.STANDARD,
                about=f"A prompt of {PROMPT} tokens fed in chunks of any size is followed by the law's tokens.",
                needs=Needs(proposals=depth, options=frozenset({"prefill_chunk"})),
                run=partial(_chunks, name, depth),
            )
        yield Check(
            id=f"state.warm-equals-cold/{name}",
            rule="rollback.exact-state",
            tier=Tier.QUICK if name in QUICK else Tier.STANDARD,
            about="A run behind runs of the same and of longer prompts gives the tokens of the first.",
            needs=Needs(proposals=2),
            run=partial(_warm, name),
        )
        yield Check(
            id=f"state.prefix-reuse/{name}",
            rule="commit.on-copies",
            tier=Tier.QUICK if name in QUICK else Tier.STANDARD,
            about="Prompts that go on from earlier outputs, whole and in part, and twice, are followed by the law's.",
            needs=Needs(proposals=2),
            run=partial(_reuse, name),
        )


def _chunks(name: str, depth: int, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    """Compare with the law, or with proposals the prompt fed whole: a wrong rollback is then no wrong prefill."""
    pair = forced_pair(name, 1)
    prompt = pair.prompt + pair.target.greedy_path(pair.prompt, PROMPT - len(pair.prompt))
    request = Request(prompt=prompt, options=RunOptions(max_tokens=TOKENS, max_proposals=depth))

    def whole(trial: Trial) -> tuple[Answer, ...]:
        return session.answers(replace(trial, schedule=Schedule()))

    compared = 0
    for chunk in CHUNKS:
        trial = Trial(pair=pair, requests=(request,), schedule=Schedule(prefill_chunk=chunk))
        other = "fed whole" if depth else "the law's argmax"
        compared += require_equal(
            session, trial, whole if depth else greedy_due, what=f"a prompt fed in chunks of {chunk} and {other}"
        )
    return Observation(text=f"chunks of {', '.join(map(str, CHUNKS))}: {compared} tokens equal")


def _warm(name: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    """Once cold, then behind longer prompts that begin with it, another prompt, and a plain run."""
    pair = forced_pair(name, 0)
    path = pair.target.greedy_path(pair.prompt, 12)
    trial = _speculative(pair, pair.prompt)
    cold = session.answers(trial)
    between = [pair.prompt + path[:5], pair.prompt + path[:11], pair.prompt + path[-1:]]
    for prompt in between:
        session.answers(_speculative(pair, prompt))
        session.answers(trial.plain())
        found = first_difference(session.answers(trial), cold)
        if found is not None:
            raise CheckFailure(
                f"behind a run of {list(prompt)}, against the same run cold: {found[2]}",
                history=pair.prompt + cold[0].tokens[: found[1]],
                case=trial.describe(),
            )
    return Observation(
        text=f"{len(between)} warm runs, {len(between) * len(cold[0].tokens)} tokens equal to the cold run's"
    )


def _reuse(name: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    """Two conversations that go on, are taken up from an earlier place, and repeated: whatever was kept of it is exact.

    The draft is right, so that no rollback is in doubt. With statistics, as many proposals are accepted as the two laws
    agree on, or the drafter was not kept with it.
    """
    pair = forced_pair(name, None)
    first, tail = pair.prompt, pair.prompt[-1:]
    other = first + tail
    reply = pair.target.greedy_path(first, 12)
    further, another = first + reply + tail, first + reply[:8] + tail
    beyond = other + pair.target.greedy_path(other, 12) + tail
    compared = 0
    for prompt in (first, other, beyond, further, first, another, further):
        trial = _speculative(pair, prompt)
        compared += require_equal(
            session, trial, greedy_due, what="a prompt that was seen in part and the law's argmax"
        )
        accepted = (session.answers(trial)[0].statistics or {}).get("accepted")
        due = sum(item.accepted for item in greedy_rounds(pair, prompt, proposals=2, tokens=12))
        if accepted is not None and not due <= accepted <= due + 1:
            raise CheckFailure(
                f"{accepted} proposals accepted where the laws agree on {due}",
                history=prompt,
                case=trial.describe(),
            )
    return Observation(text=f"7 prompts, {compared} tokens equal")


def _speculative(pair: CheckpointPair, prompt: tuple[int, ...]) -> Trial:
    return Trial(pair=pair, requests=(Request(prompt=prompt, options=RunOptions(max_tokens=12, max_proposals=2)),))
