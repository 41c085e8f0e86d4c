"""The state of one request, and the setting that it is decoded in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eredu_reference.adaptive import Adaptive
from eredu_reference.caches import Cache, Hidden
from eredu_reference.clipping import Clip, Limits
from eredu_reference.constraint import State
from eredu_reference.frontier import Block, Frontier
from eredu_reference.models import Drafter, Model, Output
from eredu_reference.pieces import Pieces
from eredu_reference.requests import AcceptanceRule, Request, Schedule
from eredu_reference.sources import RandomSource
from eredu_reference.statistics import RoundReport, Statistics
from eredu_reference.terminal import Budget, FinishReason
from eredu_reference.verification import Verification

Event = dict[str, Any]
"""One entry of the log: `event` names it, the rest is JSON-able."""


@dataclass(frozen=True)
class Resolution:
    """All that a round decided; nothing of it is in force before its installation.

    Attributes:
        emitted: The tokens that become output.
        finish: Why the output ends with them, or None.
        outputs: The target's rows.
        grammar: State behind the emitted tokens.
        promoted: Start of the next block, where the branch lives.
        adaptive: The switch behind this round.
        report: The round, for its observers.
    """

    emitted: tuple[int, ...]
    finish: FinishReason | None
    outputs: tuple[Output, ...]
    grammar: State
    promoted: Block | None
    adaptive: Adaptive
    report: RoundReport


@dataclass(frozen=True)
class Judging:
    """What the rows of a verification are judged with: the member's own, whoever else was submitted.

    Attributes:
        history: Tokens committed before the round.
        grammar: State of the grammar behind them.
        source: Where the random numbers of the judgement come from.
    """

    history: tuple[int, ...]
    grammar: State
    source: RandomSource


@dataclass
class RoundWork:
    """What a round has made so far, and what a failure drops.

    Attributes:
        clip: Its planned proposals.
        block: Its proposals.
        committed: Tokens committed before it.
        verification: Its verification, once submitted.
        judging: What its rows are judged with, once submitted.
        company: The rounds that were submitted together, itself among them.
        branch: Its lookahead branch, if one was drafted.
        planned: Tokens that the branch planned for.
        outputs: Rows of the verification, once it was waited for.
        resolution: What it decided, once resolved.
    """

    clip: Clip
    block: Block
    committed: int
    verification: Verification | None = None
    judging: Judging | None = None
    company: list[RoundWork] = field(default_factory=list)
    branch: Block | None = None
    planned: int = 0
    outputs: tuple[Output, ...] = ()
    resolution: Resolution | None = None

    @property
    def judged_with(self) -> Judging:
        """What the rows are judged with. Asked for too early it fails."""
        assert self.judging is not None, "a round is submitted before it is resolved"
        return self.judging

    @property
    def resolved(self) -> Resolution:
        """What the round decided. Asked for too early it fails."""
        assert self.resolution is not None, "a round is resolved before it is settled"
        return self.resolution


@dataclass
class Decoding:
    """What the next round of a request needs. Only the installation of a settled round changes it.

    Attributes:
        request: What is asked.
        rule: The acceptance rule in force.
        budget: Output tokens at the most, and who says so.
        source: Where random numbers come from.
        target_cache: Holds every committed token but the last.
        committed: Prompt and output.
        hiddens: The target's hidden state behind each input in its cache.
        frontier: The drafter's, or None without one.
        grammar: State behind the committed tokens; None without a grammar.
        promoted: The start of the next block, if a branch was promoted.
        adaptive: Whether branches are still drafted.
        statistics: Counters over committed rounds.
        finish: Why the output ended, once it has.
        work: The round in progress.
        reports: One report for each committed round.
        text: Visible text published so far.
        published: Ids published so far.
    """

    request: Request
    rule: AcceptanceRule
    budget: Budget
    source: RandomSource
    target_cache: Cache
    committed: tuple[int, ...]
    frontier: Frontier | None
    grammar: State
    adaptive: Adaptive
    hiddens: tuple[Hidden, ...] = ()
    promoted: Block | None = None
    statistics: Statistics = field(default_factory=Statistics)
    finish: FinishReason | None = None
    work: RoundWork | None = None
    reports: tuple[RoundReport, ...] = ()
    text: str = ""
    published: tuple[int, ...] = ()

    @property
    def round(self) -> RoundWork:
        """The round in progress. Asked for between rounds it fails."""
        assert self.work is not None, "a round begins with its drafting"
        return self.work

    @property
    def output(self) -> tuple[int, ...]:
        """Output tokens committed so far."""
        return self.committed[len(self.request.prompt) :]


Observer = Callable[[str, Decoding], None]
"""Called after every event with its name and the request's state. May raise `Cancelled`, or fail in any other way."""


def no_observer(event: str, state: Decoding) -> None:
    """Look away."""


@dataclass(frozen=True)
class Setting:
    """What stays the same for the whole of a request.

    Attributes:
        target: The model whose law counts.
        drafter: The model that proposes, or None.
        schedule: What may be drafted ahead.
        pieces: The engine's parts.
        observe: Called after every event.
        events: The log.
    """

    target: Model
    drafter: Drafter | None
    schedule: Schedule
    pieces: Pieces
    observe: Observer = no_observer
    events: list[Event] = field(default_factory=list)

    def say(self, state: Decoding, event: str, **data: object) -> None:
        """Log an event and show it to the observer."""
        self.events.append({"event": event, **data})
        self.observe(event, state)

    def limits(self, request: Request, committed: int) -> Limits:
        """All that bounds a round behind `committed` tokens."""
        drafter = self.drafter
        return Limits(
            requested=request.max_proposals,
            capability=0 if drafter is None else drafter.max_proposals,
            remaining=request.max_tokens - (committed - len(request.prompt)),
            target_context=self.target.context,
            drafter_context=self.target.context if drafter is None else drafter.model.context,
            committed=committed,
        )
