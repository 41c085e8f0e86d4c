"""The trace oracle: replays an engine's log and accounts for every event.

It knows the order of events, recomputes what bound each round, when a branch is due, what becomes of it, when lookahead
ends for good, where the output ends, and the books; all from the log, the request and the contexts. What the numbers
were drawn from it does not see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from eredu_conformance.oracles.cases import Case, cases
from eredu_conformance.oracles.verdict import Broken, Verdict, expect, judge_cases
from eredu_reference import AcceptanceRule, Pieces, Schedule, decode_speculative
from eredu_reference.decoding import Event

ROUND = (
    "plan",
    "draft",
    "submit",
    "branch-plan",
    "branch",
    "wait",
    "resolve",
    "resolve-branch",
    "commit",
    "install",
    "publish",
)
"""Events of a round in order; those of the branch may be missing."""
BRANCH = {"branch-plan", "branch", "resolve-branch"}


@dataclass
class Books:
    """An independent count of what a log says.

    Attributes:
        case: What was decoded.
        schedule: How.
        output: Tokens published so far.
        carried: Proposals that the last promotion left for the next block.
        enabled: Whether branches are still drafted.
        window: Resolved branches, reused tokens and wasted tokens of the present window.
        counts: Expected counters by name.
    """

    case: Case
    schedule: Schedule
    output: list[int] = field(default_factory=list)
    carried: list[int] = field(default_factory=list)
    enabled: bool = True
    window: list[int] = field(default_factory=lambda: [0, 0, 0])
    counts: dict[str, int] = field(default_factory=dict)
    text: str = ""

    def count(self, name: str, amount: int) -> None:
        """Add to a counter."""
        self.counts[name] = self.counts.get(name, 0) + amount

    def bound(self, output: int) -> tuple[int, str]:
        """Proposals of a round behind so many output tokens, and what bounds them."""
        request, committed = self.case.request, len(self.case.request.prompt) + output
        limits = {
            "request": request.max_proposals,
            "capability": self.case.drafter.max_proposals,
            "budget": request.max_tokens - output - 1,
            "target-context": self.case.target.context - committed,
            "drafter-context": self.case.drafter.model.context - committed + 1,
        }
        name = min(limits, key=lambda item: limits[item])
        return max(0, limits[name]), name

    def branch_due(self, count: int) -> int:
        """Tokens that a branch behind `count` proposals plans for; 0 where none is due."""
        request = self.case.request
        allowed = self.schedule.lookahead and self.enabled and self.case.drafter.exact_promotion and count > 0
        room = min(request.max_tokens, self.case.target.context - len(request.prompt) + 1)
        if not allowed or room - len(self.output) - count - 1 < 1:
            return 0
        longest = request.max_proposals + 1 if request.lookahead_depth is None else request.lookahead_depth
        planned = min(longest, 1 + self.bound(len(self.output) + count + 1)[0])
        return planned if planned >= 2 else 0

    def complete(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens behind the output complete the grammar (dead ends never do)."""
        constraint = self.case.request.constraint
        if constraint is None:
            return False
        state = constraint.start
        for token in [*self.output, *tokens]:
            if not constraint.mask(state)[token]:
                return False
            state = constraint.advance(state, token)
        return constraint.complete(state)

    def ending(self, emitted: Sequence[int]) -> str | None:
        """Why the output ends with these tokens behind it, or None. Text stops are the path oracle's."""
        request, output = self.case.request, [*self.output, *emitted]
        room = self.case.target.context - len(request.prompt) + 1
        if any(output[-len(stop) :] == list(stop) for stop in request.stop_sequences):
            return "stop"
        if self.complete(emitted):
            return "grammar"
        if output[-1] in request.eos_ids:
            return "eos"
        if len(output) >= min(request.max_tokens, room):
            return "context" if room < request.max_tokens else "length"
        return None


def _check_draft(books: Books, events: dict[str, Event]) -> None:
    plan, proposals = events["plan"], events["draft"]["proposals"]
    count, reason = books.bound(len(books.output))
    expect((plan["count"], plan["reason"]), (count, reason), what="planned proposals and their bound")
    expect(plan["start"], len(books.output), what="output position of the round")
    expect(plan["reused"], len(books.carried), what="proposals carried over from a promoted branch")
    expect(proposals[: len(books.carried)], books.carried, what="the carried proposals")
    lengths = [i for i in range(len(proposals) + 1) if books.complete(proposals[:i])]
    due = lengths[0] if lengths else count
    expect(len(proposals), due, what="proposals of the round, which end at its count or where the grammar completes")
    leading = (list(books.case.request.prompt) + books.output)[-1]
    expect(events["submit"]["inputs"], [leading, *proposals], what="verified inputs")


def _check_emission(books: Books, events: dict[str, Event]) -> None:
    proposals, resolved = events["draft"]["proposals"], events["resolve"]
    accepted, emitted, finish = resolved["accepted"], resolved["emitted"], resolved["finish"]
    if not 0 <= accepted <= len(proposals):
        raise Broken(f"{accepted} of {len(proposals)} proposals accepted")
    offered = [*proposals[:accepted], resolved["token"]]
    if finish != "stop" or books.case.request.text is None:
        ends = [i for i in range(1, len(offered) + 1) if books.ending(offered[:i]) is not None]
        due = offered[: ends[0]] if ends else offered
        expect(emitted, due, what="emitted tokens of a round")
        expect(finish, books.ending(due), what="reason to end")
    expect(emitted, offered[: len(emitted)], what="emitted tokens, against what the round offers")
    from_target = int(len(emitted) == accepted + 1)
    rejected = int(from_target and accepted < len(proposals))
    books.count("rounds", 1)
    books.count("drafted", len(proposals))
    books.count("accepted", len(emitted) - from_target)
    books.count("rejected", rejected)
    books.count("unexamined", len(proposals) - (len(emitted) - from_target) - rejected)
    books.count("target_tokens", from_target)
    books.count("emitted", len(emitted))


def _check_branch(books: Books, events: dict[str, Event]) -> None:
    proposals, resolved = events["draft"]["proposals"], events["resolve"]
    due = 0 if books.complete(proposals) else books.branch_due(len(proposals))
    expect({name in events for name in BRANCH}, {due > 0}, what="whether the round has a branch, whole")
    books.carried = []
    if due == 0:
        return
    tokens, outcome = events["branch"]["tokens"], events["resolve-branch"]
    expect(events["branch-plan"]["count"], due, what="planned tokens of the branch")
    lengths = [i for i in range(len(tokens) + 1) if books.complete(proposals + tokens[:i])]
    expect(len(tokens), lengths[0] if lengths else due, what="tokens of the branch")
    alive = resolved["accepted"] == len(proposals) and resolved["finish"] is None
    promoted = alive and bool(tokens) and tokens[0] == resolved["token"]
    room = books.bound(len(books.output) + len(resolved["emitted"]))[0]
    reused = min(len(tokens) - 1, room) if promoted else 0
    expect(outcome["outcome"], "promoted" if promoted else "dropped", what="outcome of the branch")
    expect(outcome["reused"], reused, what="branch tokens that start the next block")
    books.carried = tokens[1 : 1 + reused] if promoted else []
    books.count("lookahead_blocks", 1)
    books.count("lookahead_promoted", int(promoted))
    books.count("lookahead_drafted", len(tokens))
    books.count("lookahead_consumed", int(promoted))
    books.count("lookahead_reused", reused)
    books.count("lookahead_discarded", len(tokens) - int(promoted) - reused)
    books.count("bonus_matches", int(promoted))
    books.count("bonus_mismatches", int(alive and not promoted))
    _adapt(books, due, promoted=promoted, reused=reused)


def _adapt(books: Books, planned: int, *, promoted: bool, reused: int) -> None:
    if books.schedule.adaptive_window is None:
        return
    resolved, used, wasted = books.window
    books.window = [resolved + 1, used + reused, wasted + planned - (1 + reused if promoted else 0)]
    if books.window[0] == books.schedule.adaptive_window:
        if books.window[1] == 0 or books.window[2] > books.window[1]:
            books.enabled = False
            books.count("lookahead_disabled", 1)
        books.window = [0, 0, 0]


def _check_settlement(books: Books, events: dict[str, Event]) -> None:
    emitted = events["resolve"]["emitted"]
    committed = len(books.case.request.prompt) + len(books.output) + len(emitted)
    expect(events["commit"]["kept"], len(emitted), what="verified inputs that stay in the target's cache")
    expect(events["commit"]["target_length"], committed - 1, what="target cache length after the commit")
    expect(events["install"]["committed"], committed, what="committed tokens after the installation")
    seen = events["install"]["books"]
    expect(seen, {name: books.counts.get(name, 0) for name in seen}, what="the books")
    expect(events["publish"]["tokens"], emitted, what="published tokens of the round")
    books.output += emitted
    books.text += events["publish"]["text"]


def check_trace(case: Case, schedule: Schedule, events: Sequence[Event]) -> None:
    """Account for a whole log. Raises `Broken` at the first event that the rules do not give."""
    books, pending = Books(case, schedule), list(events)
    fed = 0
    while pending and pending[0]["event"] == "prefill":
        fed += pending.pop(0)["fed"]
    expect(fed, len(case.request.prompt) - 1, what="prefilled tokens: all of the prompt but the last")
    finish = None
    while finish is None:
        events_of_round: dict[str, Event] = {}
        for name in ROUND:
            if pending and pending[0]["event"] == name:
                events_of_round[name] = pending.pop(0)
            elif name not in BRANCH:
                raise Broken(f"'{name}' was due, the log has {pending[0]['event'] if pending else 'ended'!r}")
        _check_draft(books, events_of_round)
        _check_emission(books, events_of_round)
        _check_branch(books, events_of_round)
        _check_settlement(books, events_of_round)
        finish = events_of_round["resolve"]["finish"]
    expect([event["event"] for event in pending], ["end"], what="events behind the last round")
    expect(pending[0]["finish"], finish, what="finish of the request")


def _run(case: Case, pieces: Pieces, schedule: Schedule) -> None:
    report = decode_speculative(case.target, case.drafter, case.request, schedule=schedule, pieces=pieces)
    check_trace(case, schedule, report.events)


SCHEDULES = (
    Schedule(adaptive_window=None),
    Schedule(adaptive_window=3, prefill_chunk=2),
    Schedule(lookahead=False),
    Schedule(adaptive_window=2),
)


def _experiments(pieces: Pieces, seed: int) -> list[tuple[str, Callable[[], None]]]:
    rules = [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK, AcceptanceRule.COUPLED]
    found: list[tuple[str, Callable[[], None]]] = []
    for number, case in enumerate(cases(seed)):
        stochastic = case.with_request(acceptance=rules[(number + seed) % 3])
        longer = case.greedy().with_request(max_tokens=case.request.max_tokens + 10)
        found += [
            (f"{case.name}, sampled, seed {seed}", partial(_run, stochastic, pieces, SCHEDULES[number % 4])),
            (f"{case.name}, greedy, seed {seed}", partial(_run, longer, pieces, SCHEDULES[(number // 2 + seed) % 4])),
        ]
    return found


def judge(pieces: Pieces, seeds: Sequence[int]) -> Verdict:
    """Judge an engine on every case of every seed."""
    return judge_cases([item for seed in seeds for item in _experiments(pieces, seed)])
