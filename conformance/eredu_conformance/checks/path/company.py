"""Other requests of a batch: their number, their order, their settings and their end may not move a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs
from eredu_conformance.checks.comparing import first_difference, require_equal
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.path.cases import DEPTH, PAIRS, REQUESTS, RULES, TOKENS, label, switched_trial
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Acceptance, Answer, Feature, Finish, Schedule

Run = Callable[[str, Acceptance | None, SubjectSession, int], Observation]


@dataclass(frozen=True)
class Claim:
    """A claim about the other requests: its rule, how it is put, whether it cancels requests, and options it sets."""

    rule: str
    about: str
    run: Run
    cancels: bool = False
    options: frozenset[str] = frozenset()


UNLIKE = ({"max_proposals": 1}, {"frequency_penalty": 0.9, "presence_penalty": 0.4}, {"max_tokens": 5})
"""What makes the requests of a company differ: their K, their processors, and when they end."""


def _alone(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    trial = replace(switched_trial(name, acceptance, seed), schedule=_schedule(session))

    def due(candidate: Trial) -> tuple[Answer, ...]:
        lonely = replace(candidate, schedule=Schedule())
        return tuple(session.answers(lonely.alone(index))[0] for index in range(len(candidate.requests)))

    compared = require_equal(session, trial, due, what="requests decoded together and each alone")
    return Observation(text=f"{compared} tokens equal")


def _unlike(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    """Requests that accept and end at different times. No lookahead: who may branch depends on the others."""
    trial = switched_trial(name, acceptance, seed)
    requests = [
        replace(request, options=replace(request.options, **changes))  # type: ignore[arg-type]
        for request, changes in zip(trial.requests, UNLIKE, strict=True)
    ]
    trial = replace(trial, requests=tuple(requests), schedule=Schedule(lookahead=False))

    def due(candidate: Trial) -> tuple[Answer, ...]:
        return tuple(session.answers(candidate.alone(index))[0] for index in range(len(candidate.requests)))

    compared = require_equal(session, trial, due, what="unlike requests decoded together and each alone")
    for index, (answer, alone) in enumerate(zip(session.answers(trial), due(trial), strict=True)):
        for counter, count in _counters(alone).items():
            if _counters(answer).get(counter) != count:
                seen = _counters(answer).get(counter)
                raise _failure(f"request {index} counts {counter} = {seen} together, and {count} alone", trial)
    return Observation(text=f"{compared} tokens and the counters of {len(requests)} requests equal")


def _counters(answer: Answer) -> dict[str, int]:
    """Counters of an answer; times are nobody's promise."""
    return {name: count for name, count in (answer.statistics or {}).items() if isinstance(count, int)}


def _order(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    trial = replace(switched_trial(name, acceptance, seed), schedule=_schedule(session))

    def due(candidate: Trial) -> tuple[Answer, ...]:
        return session.answers(replace(candidate, requests=candidate.requests[::-1]))[::-1]

    compared = require_equal(session, trial, due, what="a batch and the same batch in reverse order")
    return Observation(text=f"{compared} tokens equal")


def _batch_roots(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    """Without seeds of their own, requests take the call's seed and their number, and nothing from each other."""
    trial = replace(switched_trial(name, acceptance, seed, seeded=False), seed=root(seed, "path.batch-roots"))

    def due(candidate: Trial) -> tuple[Answer, ...]:
        longer = replace(candidate, requests=(*candidate.requests, candidate.requests[0]), schedule=_schedule(session))
        return session.answers(longer)[:-1]

    compared = require_equal(session, trial, due, what="a batch of one seed, and the same with one request more behind")
    return Observation(text=f"{compared} tokens equal")


def _neighbour_cancelled(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    whole = replace(switched_trial(name, acceptance, seed), schedule=_schedule(session))
    expected = session.answers(whole)[1:]
    for after in (0, 1, 4, 7):
        first = replace(whole.requests[0], cancel_after=after)
        trial = replace(whole, requests=(first, *whole.requests[1:]))
        found = first_difference(session.answers(trial)[1:], expected)
        if found is not None:
            index, _, message = found
            raise _failure(f"request {index + 1}, beside one cancelled after {after} tokens: {message}", trial)
    return Observation(text=f"4 cancellations, {4 * sum(len(answer.tokens) for answer in expected)} tokens equal")


def _cancelled_prefix(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    """A cancelled request keeps what it had published, a prefix of its whole output, and nothing of a round behind."""
    whole = replace(switched_trial(name, acceptance, seed).alone(0), schedule=_schedule(session))
    full = session.answers(whole)[0].tokens
    for after in range(0, TOKENS, 2):
        trial = replace(whole, requests=(replace(whole.requests[0], cancel_after=after),))
        answer = session.answers(trial)[0]
        told = len(answer.tokens)
        if answer.tokens != full[:told]:
            raise _failure(f"cancelled after {after}: {list(answer.tokens)} is no prefix of {list(full)}", trial)
        if answer.finish is not Finish.CANCELLED and answer.tokens != full:
            raise _failure(f"cancelled after {after}: it ended with {answer.finish.value} and {told} tokens", trial)
        if not after <= told <= (after + DEPTH if after else 0):
            raise _failure(
                f"cancelled as soon as {after} tokens were published: {told} came, more than one round behind", trial
            )
    return Observation(text=f"{TOKENS // 2} cancellations, each a prefix of the whole output")


def _cancelled_at_the_end(name: str, acceptance: Acceptance | None, session: SubjectSession, seed: int) -> Observation:
    """A cancellation from the callback that shows the last tokens: the output had ended, and stays as it ended."""
    whole = replace(switched_trial(name, acceptance, seed).alone(0), schedule=_schedule(session))
    full = session.answers(whole)
    trial = replace(whole, requests=(replace(whole.requests[0], cancel_after=len(full[0].tokens)),))
    found = first_difference(session.answers(trial), full)
    if found is not None:
        raise _failure(f"cancelled with its last tokens: {found[2]}", trial)
    return Observation(text=f"{len(full[0].tokens)} tokens and their finish equal")


CLAIMS = {
    "alone-or-together": Claim("scheduling.requests-independent", "a batch is each of its requests alone", _alone),
    "unlike-company": Claim(
        "scheduling.group-changes-nothing",
        "a batch of unlike requests is each of them alone, counters and all",
        _unlike,
        options=frozenset(name for changes in UNLIKE for name in changes),
    ),
    "order": Claim("scheduling.ring", "the order of a batch moves no token", _order),
    "batch-roots": Claim("randomness.address-to-key", "one more request behind a batch moves no token", _batch_roots),
    "neighbour-cancelled": Claim(
        "scheduling.members-end-alone", "cancelling a neighbour moves no token", _neighbour_cancelled, cancels=True
    ),
    "cancelled-prefix": Claim(
        "cancellation.leaves-no-trace", "a cancelled output is a prefix of the whole", _cancelled_prefix, cancels=True
    ),
    "cancelled-at-the-end": Claim(
        "cancellation.nothing-submitted-at-once",
        "a cancellation that comes with the last tokens changes nothing",
        _cancelled_at_the_end,
        cancels=True,
    ),
}


def checks() -> Iterator[Check]:
    """One check for each pair, rule and claim."""
    for name, tier in PAIRS.items():
        for acceptance in RULES:
            for claim, told in CLAIMS.items():
                features = {Feature.SEEDS} | ({Feature.CANCELLATION} if told.cancels else set())
                yield Check(
                    id=f"path.{claim}/{name}/{label(acceptance)}",
                    rule=told.rule,
                    tier=tier,
                    about=f"Under {label(acceptance)} decoding, {told.about}.",
                    needs=Needs(
                        features=frozenset(features),
                        options=told.options,
                        acceptance=acceptance,
                        proposals=DEPTH,
                        batch=REQUESTS + 1,
                    ),
                    run=partial(told.run, name, acceptance),
                )


def _schedule(session: SubjectSession) -> Schedule:
    """Lookahead where the subject has it, so that there is more to disturb."""
    return Schedule(lookahead=Feature.LOOKAHEAD in session.capabilities.features)


def _failure(message: str, trial: Trial) -> CheckFailure:
    return CheckFailure(message, history=trial.requests[0].prompt, case=trial.describe())
