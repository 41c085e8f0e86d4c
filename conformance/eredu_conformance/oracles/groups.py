"""The group oracle: several requests decoded together against each of them alone, bit for bit, and their joint law.

What is compared is the whole report of a member: tokens, text, finish, statistics, rounds, and every event with the
lengths of its caches. The expected report is the same engine's on that request alone, which the other oracles judge. In
the joint law a member's marginal could be right while two members are correlated, so it is enumerated whole: it must be
the product of the laws of plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from eredu_conformance.oracles.cases import (
    Case,
    eos_case,
    grammar_case,
    near_case,
    penalty_case,
    recurrent_case,
    table_case,
    trigger_case,
    window_case,
)
from eredu_conformance.oracles.enumeration import EnumeratingSource, enumerate_law, total_variation
from eredu_conformance.oracles.law import TOLERANCE, plain_law
from eredu_conformance.oracles.verdict import Broken, Verdict, expect, judge_cases
from eredu_reference import (
    AcceptanceRule,
    Cancelled,
    Drafter,
    Pieces,
    Report,
    Request,
    Schedule,
    decode_speculative,
    decode_together,
)
from eredu_reference.decoding import Decoding, Observer, no_observer
from eredu_reference.models import TableModel
from eredu_reference.rows import Row
from eredu_reference.sources import Address, Uniform

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


def _law_is_the_product(pieces: Pieces, seed: int, rule: AcceptanceRule) -> None:
    target = TableModel.random(2, order=1, seed=seed)
    drafter = Drafter(TableModel.random(2, order=1, seed=seed + 77))
    first = Request(prompt=(0, 1), max_tokens=2, acceptance=rule, max_proposals=1)
    requests = [first, replace(first, prompt=(1,), max_tokens=3)]

    def experiment(source: EnumeratingSource) -> tuple[object, ...]:
        sources = [Apart(source, number) for number in range(len(requests))]
        outcomes = decode_together(target, drafter, requests, schedule=OFF, pieces=pieces, sources=sources)
        return tuple(each.tokens if isinstance(each, Report) else repr(each) for each in outcomes)

    laws = [plain_law(Case("", target, drafter, request)) for request in requests]
    independent: dict[tuple[object, ...], float] = {
        (one, other): weight * share for (one, weight), (other, share) in product(*(law.items() for law in laws))
    }
    distance = total_variation(enumerate_law(experiment, most_paths=4_000), independent)
    if distance > TOLERANCE:
        raise Broken(f"total variation {distance:.3g} from two independent requests")


def _experiments(pieces: Pieces, seed: int) -> list[tuple[str, Callable[[], None]]]:
    makers = (table_case, near_case, penalty_case, grammar_case, trigger_case, eos_case, recurrent_case, window_case)
    cases = [make(seed) for make in makers]
    found: list[tuple[str, Callable[[], None]]] = [
        (f"{case.name}, together", partial(_same_as_alone, case, pieces)) for case in cases
    ]
    for at in (1, 3, 4, 9, 12):
        for case in cases[1 + at % 2 :: 4]:
            for error in (Cancelled, StumbleError):
                name = f"{case.name}, {error.__name__} at event {at}"
                found.append((name, partial(_one_leaves, case, pieces, error, at)))
    rules = (AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED)
    found += [(f"law of two, {rule.value}", partial(_law_is_the_product, pieces, seed, rule)) for rule in rules]
    return found


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on companies of every seed."""
    return judge_cases([item for seed in seeds for item in _experiments(pieces, seed)])
