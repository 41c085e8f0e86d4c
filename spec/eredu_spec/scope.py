"""What bounds an exploration: the requests, the bounds they share, and what their environment may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from eredu_spec.settings import Settings
from eredu_spec.sites import obeys
from eredu_spec.state import Request, State, opened

Move = tuple[str, Fraction, Request]
Moves = dict[Request, tuple[Move, ...]]

SITUATIONS = ("free", "no-submission", "no-branch", "neither", "cancel", "mark")
"""All that a request's moves may depend on besides itself: what the two bounds leave open, and who asks."""


@obeys("scheduling.in-flight-bound", "lookahead.bounded")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scope:
    """One system to explore, propagate or follow.

    Attributes:
        requests: The settings of each request.
        max_in_flight: Verifications in flight at once, over all requests.
        max_branches: Lookahead branches alive at once, over all requests.
        ring: Whether the ring picks who acts; otherwise every interleaving is a successor.
        cancellations: Whether a request may be cancelled between two turns.
        callbacks: Whether a callback may cancel a request while events are published.
        failures: Whether an action may raise.
        memory: Moves found so far, by situation and request: they are a function of just these two.
    """

    requests: tuple[Settings, ...]
    max_in_flight: int = 4
    max_branches: int = 4
    ring: bool = False
    cancellations: bool = False
    callbacks: bool = False
    failures: bool = False
    memory: dict[str, Moves] = field(default_factory=lambda: {name: {} for name in SITUATIONS}, repr=False)

    def __post_init__(self) -> None:
        if self.max_in_flight < 1 or self.max_branches < 1:
            raise ValueError(
                f"max_in_flight was {self.max_in_flight} and max_branches {self.max_branches}; expected at least 1 "
                "of each (branches are turned off with lookahead_depth=None)"
            )

    def start(self) -> State:
        """Every request just taken in."""
        return tuple(opened(settings) for settings in self.requests)
