"""The rounds of each request, read off the scheduler's trace: what is known of a token's place before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRound:
    """One verification that was committed.

    Attributes:
        proposals: Proposals that were verified.
        emitted: Tokens of it that became output.
        promoted: Whether a promoted lookahead branch supplied the first proposals.
    """

    proposals: int
    emitted: int
    promoted: bool


@dataclass
class RoundLog:
    """A trace sink for one call.

    Attributes:
        rounds: The committed rounds of each request, in their order.
    """

    rounds: dict[int, list[CommittedRound]] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)
    _reused: dict[int, int] = field(default_factory=dict)

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event. Rounds that were cancelled resolve nothing and leave none."""
        request = event["request"]
        match event["event"]:
            case "submit":
                self._rows[request] = event["rows"]
            case "resolve":
                each = CommittedRound(
                    proposals=self._rows[request] - 1,
                    emitted=len(event["emitted"]),
                    promoted=self._reused.get(request, 0) > 0,
                )
                self.rounds.setdefault(request, []).append(each)
                self._reused[request] = event["reused"]
