"""The ring of live requests: whose turn it is, and who is submitted together.

Everything here depends on phases and bounds alone, never on a clock, a token or a number that a device computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Generic

from eredu.contract.executor import BlockT, SequenceT, VerificationT
from eredu.contract.options import MtpSchedulerOptions
from eredu.scheduling.action import Action, Turn
from eredu.scheduling.phase import BRANCHING, SUBMITTED, Phase
from eredu.scheduling.request_state import RequestState


class Ring(Generic[SequenceT, BlockT, VerificationT]):
    """Live requests in the order in which they are served.

    Args:
        options: The bounds.
    """

    def __init__(self, options: MtpSchedulerOptions) -> None:
        self._options = options
        self._states: deque[RequestState[SequenceT, BlockT, VerificationT]] = deque()

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[RequestState[SequenceT, BlockT, VerificationT]]:
        return iter(self._states)

    def add(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Take in a request, behind all others."""
        self._states.append(state)

    def remove(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> None:
        """Let go of a request that has ended."""
        self._states.remove(state)

    @property
    def in_flight(self) -> int:
        """Verifications submitted and not yet resolved."""
        return sum(state.phase in SUBMITTED for state in self._states)

    @property
    def branches(self) -> int:
        """Lookahead branches begun and not yet resolved."""
        return sum(state.phase in BRANCHING for state in self._states)

    # rule: scheduling.ring, scheduling.requests-independent
    def next_turn(self) -> Turn[SequenceT, BlockT, VerificationT] | None:
        """The turn of the next request that can act, which goes to the back of the ring with those that it takes along.

        Returns None if no request can act; the order is then as it was.
        """
        for _ in range(len(self._states)):
            first = self._states[0]
            self._states.rotate(-1)
            action = self._next_action(first)
            if action is not None:
                return Turn(action, self._join(first) if action is Action.SUBMIT else (first,))
        return None

    def _next_action(self, state: RequestState[SequenceT, BlockT, VerificationT]) -> Action | None:
        """The action that the request may take now, among the others of the ring; None while it has to wait."""
        match state.phase:
            case Phase.PREFILL:
                return Action.PREFILL
            case Phase.READY_TO_DRAFT:
                return Action.DRAFT
            case Phase.READY_TO_SUBMIT:
                # rule: scheduling.in-flight-bound
                return Action.SUBMIT if self.in_flight < self._options.max_in_flight else None
            case Phase.VERIFICATION_IN_FLIGHT:
                # rule: lookahead.bounded, lookahead.while-in-flight
                wanted = state.current.planned > 0 and self.branches < self._options.max_branches
                return Action.BEGIN_BRANCH if wanted else Action.RESOLVE
            case Phase.LOOKAHEAD_DRAFTING:
                return Action.BRANCH
            case Phase.LOOKAHEAD_READY | Phase.RESOLUTION:
                return Action.RESOLVE
            case _:
                return None

    def _join(
        self, first: RequestState[SequenceT, BlockT, VerificationT]
    ) -> tuple[RequestState[SequenceT, BlockT, VerificationT], ...]:
        """The group that is submitted with `first`, moved to the back of the ring in its order."""
        room = self._options.max_in_flight - self.in_flight
        most = room if self._options.max_group is None else min(room, self._options.max_group)
        ready = (state for state in self._states if state is not first and state.phase is Phase.READY_TO_SUBMIT)
        group = (first, *islice(ready, most - 1))
        for state in group:
            self._states.remove(state)
        self._states.extend(group)
        return group
