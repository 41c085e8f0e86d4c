"""Groups: several requests decoded together against each of them alone, bit for bit, and their joint law.

What is compared is the whole report of a member: tokens, text, finish, statistics, rounds, and every event with the
lengths of its caches. The expected report is the same engine's on that request alone, which the checks judge. In
the joint law a member's marginal could be right while two members are correlated, so it is enumerated whole: it must be
the product of the laws of plain decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from eredu_conformance.harness.cases import Case, near_case, table_case, twin_case
from eredu_conformance.harness.enumeration import EnumeratingSource, enumerate_law
from eredu_conformance.harness.grammars import triggered_grammar
from eredu_conformance.oracles.experiment import Broken, Experiment, expect
from eredu_reference import (
    AcceptanceRule,
    Cancelled,
    Drafter,
    Pieces,
    Report,
    Request,
    Sampling,
    Schedule,
    decode_speculative,
    decode_together,
)
from eredu_reference.decoding import Decoding, Observer, no_observer
from eredu_reference.models import TableModel
from eredu_reference.rows import Row
from eredu_reference.sources import Address, Uniform

TOLERANCE = 1e-10
"""Total variation that is still rounding."""

EVER = Schedule(adaptive_window=None)
OFF = Schedule(lookahead=False)
FAR = 1_000
"""Positions between the draws of two requests that share an enumerating source."""


class StumbleError(RuntimeError):
    """What a member fails with where an experiment lets it fail."""


@dataclass
class Interruption:
    """An observer that raises once, at the event of a number.

    Attributes:
        at: The event's number, from 1.
        error: What it raises.
        seen: Events so far.
    """

    at: int
    error: type[Exception]
    seen: int = 0

    def __call__(self, event: str, state: Decoding) -> None:  # noqa: ARG002
        """Count an event, and raise at the one."""
        self.seen += 1
        if self.seen == self.at:
            raise self.error


def company(case: Case) -> list[Request]:
    """Four requests that differ in seed, prompt, length, K and rule, and so end and accept at different times."""
    request = case.request
    return [
        request,
        replace(request, seed=request.seed + 100, max_tokens=5, max_proposals=3),
        replace(request, seed=request.seed + 200, prompt=request.prompt[2:], acceptance=AcceptanceRule.COUPLED),
        replace(request, seed=request.seed + 300, max_proposals=1, acceptance=AcceptanceRule.BLOCK),
    ]


def alone(case: Case, request: Request, pieces: Pieces, observe: Observer = no_observer) -> dict[str, Any]:
    """The report of a request decoded alone."""
    return decode_speculative(
        case.target, case.drafter, request, schedule=EVER, pieces=pieces, observe=observe
    ).as_dict()


def _together(case: Case, pieces: Pieces, observers: Sequence[Observer] | None = None) -> list[dict[str, Any] | str]:
    outcomes = decode_together(
        case.target, case.drafter, company(case), schedule=EVER, pieces=pieces, observers=observers
    )
    return [each.as_dict() if isinstance(each, Report) else f"failed: {each!r}" for each in outcomes]


def _same_as_alone(case: Case, pieces: Pieces) -> None:
    for number, (seen, request) in enumerate(zip(_together(case, pieces), company(case), strict=True)):
        _expect_report(seen, alone(case, request, pieces), f"member {number}, together and alone")


def _expect_report(seen: dict[str, Any] | str, due: dict[str, Any] | str, about: str) -> None:
    """Raise `Broken` at the first field in which two reports differ, and at its first differing entry."""
    if isinstance(seen, str) or isinstance(due, str):
        expect(seen, due, what=about)
        return
    for name, value in due.items():
        if isinstance(value, list):
            for place, (other, entry) in enumerate(zip(seen[name], value, strict=False)):
                expect(other, entry, what=f"{about}: entry {place} of {name}")
        expect(seen[name], value, what=f"{about}: {name}")


def _one_leaves(case: Case, pieces: Pieces, error: type[Exception], at: int) -> None:
    """One member is cancelled or fails at an event of its own; it ends as it would alone, and the others go on."""
    requests, leaver = company(case), 2
    observers: list[Observer] = [no_observer] * len(requests)
    observers[leaver] = Interruption(at, error)
    for number, seen in enumerate(_together(case, pieces, observers)):
        if number != leaver:
            due: dict[str, Any] | str = alone(case, requests[number], pieces)
        elif error is Cancelled:
            due = alone(case, requests[number], pieces, Interruption(at, error))
        else:
            due = f"failed: {error()!r}"
        _expect_report(seen, due, f"member {number}, with member {leaver} gone at event {at}")


@dataclass(frozen=True)
class Apart:
    """The numbers of one request on a source that several share."""

    source: EnumeratingSource
    number: int

    def uniform(self, address: Address) -> Uniform:
        """The coin at an address of this request."""
        return self.source.uniform(self._own(address))

    def categorical(self, address: Address, row: Row) -> int:
        """A token at an address of this request."""
        return self.source.categorical(self._own(address), row)

    def _own(self, address: Address) -> Address:
        return replace(address, position=address.position + FAR * self.number)


def law_is_the_product(pieces: Pieces, seed: int, rule: AcceptanceRule) -> None:
    """The joint law of two members is that of two requests that are decoded alone, with numbers of their own."""
    target = TableModel.random(2, order=1, seed=seed)
    drafter = Drafter(TableModel.random(2, order=1, seed=seed + 77))
    first = Request(prompt=(0, 1), max_tokens=2, acceptance=rule, max_proposals=1)
    requests = [first, replace(first, prompt=(1,), max_tokens=3)]

    def together(source: EnumeratingSource) -> tuple[object, ...]:
        sources = [Apart(source, number) for number in range(len(requests))]
        outcomes = decode_together(target, drafter, requests, schedule=OFF, pieces=pieces, sources=sources)
        return tuple(each.tokens if isinstance(each, Report) else repr(each) for each in outcomes)

    def one(request: Request, source: EnumeratingSource) -> object:
        return decode_speculative(target, drafter, request, schedule=OFF, pieces=pieces, source=source).tokens

    laws = [enumerate_law(partial(one, request)) for request in requests]
    independent: dict[tuple[object, ...], float] = {
        (left, right): weight * share for (left, weight), (right, share) in product(*(law.items() for law in laws))
    }
    joint = enumerate_law(together)
    distance = sum(abs(joint.get(key, 0.0) - independent.get(key, 0.0)) for key in {*joint, *independent}) / 2
    if distance > TOLERANCE:
        raise Broken(f"total variation {distance:.3g} from two independent requests")


def _cases(seed: int) -> list[Case]:
    penalties = Sampling(frequency_penalty=0.9, presence_penalty=0.4, repetition_penalty=1.7, repeat_last_n=5)
    return [
        table_case(seed),
        twin_case(seed),
        near_case(seed).with_request(sampling=penalties),
        near_case(seed).with_request(constraint=triggered_grammar(table_case(seed).target.vocabulary)),
        near_case(seed).with_request(eos_ids=frozenset({seed % 5})),
    ]


def _groups(pieces: Pieces) -> None:
    """Companies of four, whole, and with one member cancelled or failed at each of some events."""
    for case in [case for seed in range(3) for case in _cases(seed)]:
        _same_as_alone(case, pieces)
    for at in (3, 4, 9, 12):
        for error in (Cancelled, StumbleError):
            _one_leaves(near_case(at), pieces, error, at)
    for rule in (each for each in AcceptanceRule if each is not AcceptanceRule.GREEDY):
        law_is_the_product(pieces, 1, rule)


EXPERIMENTS = (Experiment("scripted.groups", "a member that fails, and every event of a member", _groups),)
"""Experiments of this file."""
