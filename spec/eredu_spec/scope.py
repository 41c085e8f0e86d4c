"""What bounds an exploration: the requests, the bounds they share, and what their environment may do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from eredu_spec.drafting import Move
from eredu_spec.request import Request, Settings
from eredu_spec.sites import obeys
from eredu_spec.state import State, opened

Action = Callable[[Request], Iterator[Move]]


@obeys("scheduling.in-flight-bound", "lookahead.bounded")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scope:
    """One system to explore, propagate or follow.

    Attributes:
        requests: The settings of each request.
        max_in_flight: Verifications in flight at once, over all requests.
        max_branches: Lookahead branches alive at once, over all requests.
        max_group: Requests submitted together at the most; None sets no bound of its own.
        ring: Whether the ring picks who acts; otherwise every interleaving is a successor.
        cancellations: Whether a request may be cancelled between two turns.
        callbacks: Whether a callback may cancel a request while events are published.
        failures: Whether an action may raise.
        known_moves: Moves found so far, by action and request: they are a function of these two alone.
    """

    requests: tuple[Settings, ...]
    max_in_flight: int = 4
    max_branches: int = 4
    max_group: int | None = None
    ring: bool = False
    cancellations: bool = False
    callbacks: bool = False
    failures: bool = False
    known_moves: dict[Action, dict[Request, tuple[Move, ...]]] = field(
        default_factory=lambda: defaultdict(dict), init=False, repr=False
    )

    def __post_init__(self) -> None:
        if self.max_in_flight < 1 or self.max_branches < 1:
            raise ValueError(
                f"max_in_flight was {self.max_in_flight} and max_branches {self.max_branches}; expected at least 1 "
                "of each (branches are turned off with lookahead_depth=None)"
            )
        if self.max_group is not None and self.max_group < 1:
            raise ValueError(f"max_group was {self.max_group}; expected None or at least 1, a submission alone")

    def start(self) -> State:
        """Every request just taken in."""
        return tuple(opened(settings) for settings in self.requests)

    def moves(self, action: Action, request: Request) -> tuple[Move, ...]:
        """What an action may make of a request; remembered, so that it is worked out once."""
        known = self.known_moves[action]
        moves = known.get(request)
        if moves is None:
            moves = known[request] = tuple(action(request))
        return moves
