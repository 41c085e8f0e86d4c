"""The state of the machine: requests as values that are compared by identity.

Equal requests are one object (`intern`), so that a state is a tuple of pointers: hashing it costs nothing, which is
what lets exhaustive exploration and exact propagation share one transition function.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from eredu_spec.adaptive import Adaptive
from eredu_spec.draws import Memory
from eredu_spec.phases import Phase, Stage
from eredu_spec.randomness import Address
from eredu_spec.settings import Settings
from eredu_spec.statistics import Statistics

Tokens = tuple[int, ...]

LOOKAHEAD_ON = Adaptive()
NOTHING_COUNTED = Statistics()


class Resolution(NamedTuple):
    """The outcome of a round on copies: nothing in it is true of the request before it is installed.

    Attributes:
        accepted: Proposals that the acceptance rule took.
        candidates: Those proposals and the token that the target supplied.
        emitted: The candidates up to the first terminal one.
        finish: Why the output ends there, or None.
        matched: Whether the bonus equals the branch's guess; None where the two do not meet.
        branch: What becomes of the branch: `none`, `promoted` or `dropped`.
        consumed: 1 if the guess became the bonus.
        reused: Branch tokens that start the next block.
        discarded: Branch tokens thrown away.
        depth: The clip of the next round.
        clip: What bound it.
        requested: K asked for in the next round.
        adaptive: The lookahead switch behind the round.
    """

    accepted: int
    candidates: Tokens
    emitted: Tokens
    finish: str | None
    matched: bool | None
    branch: str = "none"
    consumed: int = 0
    reused: int = 0
    discarded: int = 0
    depth: int = 0
    clip: str = ""
    requested: int = 0
    adaptive: Adaptive = LOOKAHEAD_ON

    @property
    def is_replaced(self) -> bool:
        """Whether the target's token replaces a rejected proposal."""
        return len(self.candidates) == self.accepted + 1

    @property
    def kept(self) -> int:
        """Verified inputs that stay in the target cache: as many as tokens were emitted."""
        return len(self.emitted)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Request:
    """One request.

    Attributes:
        settings: What it was opened with.
        phase: Where it stands.
        stage: How far its resolution has come.
        rows: The target cache, as the tokens it has taken as inputs.
        output: Committed output tokens.
        published: Output tokens that the reader has seen.
        finish: Why it ended.
        cancelling: Whether a callback asked to cancel it.
        requested: K asked for in this round.
        depth: The clip of this round.
        clip: What bound it.
        block: Proposals of this round.
        reused: How many of them a promoted branch supplied.
        ended: Whether the grammar is complete behind the last proposal.
        reach: Tokens between the last target state the drafter read and the block's first proposal; grows only where
            a branch was promoted, and matters only to drafters that read hidden states.
        frontier: Tokens that the drafter's frontier stands behind: committed ones and the block.
        planned: Tokens that the round's branch plans for; 0 without one.
        branch: Tokens of the branch.
        clone: Tokens that the branch's own frontier stands behind; 0 without one.
        resolution: The outcome of the round, on copies.
        adaptive: The lookahead switch.
        memory: What is known about addresses that may be read again.
        statistics: The counters, where the settings ask for them.
        ledger: Addresses that decided committed tokens, where the settings ask for them.
    """

    settings: Settings
    phase: Phase = Phase.PREFILL
    stage: Stage = Stage.IDLE
    rows: Tokens = ()
    output: Tokens = ()
    published: int = 0
    finish: str | None = None
    cancelling: bool = False
    requested: int = 0
    depth: int = 0
    clip: str = ""
    block: Tokens = ()
    reused: int = 0
    ended: bool = False
    reach: int = 0
    frontier: int = 0
    planned: int = 0
    branch: Tokens = ()
    clone: int = 0
    resolution: Resolution | None = None
    adaptive: Adaptive = LOOKAHEAD_ON
    memory: Memory = ()
    statistics: Statistics = NOTHING_COUNTED
    ledger: tuple[Address, ...] = ()

    @property
    def committed(self) -> Tokens:
        """Prompt and output."""
        return self.settings.prompt + self.output

    @property
    def remaining(self) -> int:
        """Output tokens left in the budget."""
        return self.settings.budget - len(self.output)


State = tuple[Request, ...]
"""The machine: its requests, in the order in which the ring serves them next; where every interleaving is explored, in
the order in which they were opened. A plain tuple, because exploration makes millions of them."""

_values = attrgetter(*(item.name for item in fields(Request)))
_POOL: WeakValueDictionary[Any, Request] = WeakValueDictionary()


def intern(request: Request) -> Request:
    """The one object that stands for all requests equal to this one."""
    return _POOL.setdefault(_values(request), request)


def evolve(request: Request, **changes: Any) -> Request:
    """The request with some fields changed."""
    return intern(replace(request, **changes))


def opened(settings: Settings) -> Request:
    """A request as it is taken in: nothing cached, nothing drafted, the drafter in step with the prompt."""
    return intern(Request(settings, requested=settings.requested, frontier=len(settings.prompt)))


def moved(before: State, after: State) -> list[tuple[Request, Request]]:
    """Who moved from a state to one behind it, as pairs of what it was and what it is, in the order behind.

    One pair, save for a group that was submitted.
    """
    were = {request.settings.number: request for request in before}
    pairs = ((were[request.settings.number], request) for request in after)
    return [(was, request) for was, request in pairs if was is not request]
