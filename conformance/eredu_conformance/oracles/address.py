"""The address oracle: which address each decision reads, and that each is consumed once.

A recording source logs every read between the engine's own events. The expected addresses are written here a second
time, from the rules: roles, output positions, and the round's own numbers under `block`. Addresses that only discarded
work read are not consumed. The recorded q of a proposal must be, bit for bit, the row that it was drawn from; no
sampling could find a difference of 10^-3 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from eredu_conformance.oracles.cases import Case, cases
from eredu_conformance.oracles.recording import RecordingSource
from eredu_conformance.oracles.verdict import Broken, Verdict, expect, judge_cases
from eredu_reference import AcceptanceRule, Pieces, Schedule, decode_speculative, source_of
from eredu_reference.decoding import Decoding, Event
from eredu_reference.rows import Row

Name = tuple[str, int, int]
"""An address in words: role, output position, number inside a round."""

ROLES = {1: "draft", 2: "accept", 3: "residual", 4: "target", 5: "noise"}


def _name(event: Event) -> Name:
    address = event["address"]
    return ROLES[int(address.role)], address.position, address.index


def _proposal(rule: str, start: int, index: int) -> Name:
    if rule == "block":
        return "draft", start, index
    return ("noise" if rule == "coupled" else "draft"), start + index, 0


def _decision(rule: str, start: int, count: int, accepted: int) -> list[Name]:
    """Reads of a resolution, in order: coins, then the target's token."""
    if rule == "coupled":
        return [("noise", start + index, 0) for index in range(accepted + 1)]
    if rule == "block":
        coins = [("accept", start, index) for index in range(count)]
    else:
        coins = [("accept", start + index, 0) for index in range(min(accepted + 1, count))]
    return [*coins, ("target" if accepted == count else "residual", start + accepted, 0)]


@dataclass
class Ledger:
    """Reads of one run, checked segment by segment.

    Attributes:
        rule: Name of the rule in force.
        consumed: Addresses that committed positions consumed.
        drawn: Row and token of the last proposal draw at each address.
        start: First output position of the present round.
        count: Its proposals.
    """

    rule: str
    consumed: set[Name] = field(default_factory=set)
    drawn: dict[Name, Event] = field(default_factory=dict)
    start: int = 0
    count: int = 0

    def check(self, event: Event, reads: list[Event], plan: Event | None) -> None:
        """Check the reads that an event closes off. Raises `Broken`."""
        names = [_name(read) for read in reads]
        kind = event["event"]
        if self.rule == "greedy":
            expect(names, [], what=f"reads of greedy decoding before '{kind}'")
        elif kind == "draft" and plan is not None:
            self.start, self.count = plan["start"], len(event["proposals"])
            expected = [_proposal(self.rule, self.start, i) for i in range(plan["reused"], self.count)]
            self._drafted(names, expected, reads, event["proposals"][plan["reused"] :])
        elif kind == "branch":
            first = _proposal(self.rule, self.start, self.count)
            behind = range(len(event["tokens"]) - 1)
            later = [_proposal(self.rule, self.start + self.count + 1, i) for i in behind]
            self._drafted(names, [first, *later][: len(event["tokens"])], reads, event["tokens"])
        elif kind == "resolve":
            expect(names, _decision(self.rule, self.start, self.count, event["accepted"]), what="reads of a resolution")
            self._consume(names, event)
        else:
            expect(names, [], what=f"reads before '{kind}', where nothing is drawn")

    def _drafted(self, names: list[Name], expected: list[Name], reads: list[Event], tokens: list[int]) -> None:
        expect(names, expected, what="reads of drafting")
        expect([read["token"] for read in reads], tokens, what="proposals against what was drawn for them")
        self.drawn |= dict(zip(names, reads, strict=True))

    def _consume(self, names: list[Name], event: Event) -> None:
        examined = [_proposal(self.rule, self.start, i) for i in range(min(event["accepted"] + 1, self.count))]
        if self.rule == "block":
            examined = [_proposal(self.rule, self.start, i) for i in range(self.count)]
        fresh = set(names) | set(examined)
        if fresh & self.consumed:
            raise Broken(f"addresses consumed twice: {sorted(fresh & self.consumed)}")
        self.consumed |= fresh

    def check_rows(self, rows: Sequence[Row]) -> None:
        """Check that the recorded q of each proposal is the row it was drawn from, bit for bit."""
        if self.rule == "greedy":
            return
        for index, recorded in enumerate(rows):
            drawn = self.drawn[_proposal(self.rule, self.start, index)]["row"]
            if not np.array_equal(recorded, drawn):
                raise Broken(f"proposal {index} was drawn from {drawn.tolist()}, its q says {recorded.tolist()}")


def _run(case: Case, pieces: Pieces, schedule: Schedule) -> None:
    rule = "greedy" if case.request.sampling.temperature == 0 else case.request.acceptance.value
    ledger, events = Ledger(rule), list[Event]()
    state = {"seen": 0}
    plan: list[Event] = []

    def observe(kind: str, decoding: Decoding) -> None:
        fresh, state["seen"] = events[state["seen"] :], len(events)
        reads = [event for event in fresh if event["event"] == "read"]
        ledger.check(fresh[-1], reads, plan[-1] if plan else None)
        if kind == "plan":
            plan.append(fresh[-1])
        if kind == "draft" and decoding.work is not None:
            ledger.check_rows(decoding.work.block.rows)

    source = RecordingSource(source_of(case.request), events)
    decode_speculative(
        case.target,
        case.drafter,
        case.request,
        schedule=schedule,
        pieces=pieces,
        source=source,
        observe=observe,
        events=events,
    )


def _experiments(pieces: Pieces, seed: int) -> list[tuple[str, Callable[[], None]]]:
    found: list[tuple[str, Callable[[], None]]] = []
    for number, case in enumerate(cases(seed)):
        rules = [rule for rule in AcceptanceRule if rule is not AcceptanceRule.GREEDY]
        rule = rules[(number + seed) % 3]
        chosen = [case.with_request(acceptance=rule)] + ([case.greedy()] if number % 6 == seed % 6 else [])
        for variant in chosen:
            schedule = Schedule(lookahead=number % 4 != 3, adaptive_window=None)
            found.append((f"{case.name}, {rule}, seed {seed}", partial(_run, variant, pieces, schedule)))
    return found


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on every case of every seed."""
    return judge_cases([item for seed in seeds for item in _experiments(pieces, seed)])
