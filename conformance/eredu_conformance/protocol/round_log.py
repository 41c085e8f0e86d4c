"""The rounds of each request, read off a scheduler's trace: what is known of a token's place before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eredu_conformance.protocol.run import Round


@dataclass
class RoundLog:
    """A trace sink for one call.

    Attributes:
        rounds: The committed rounds of each request, in their order.
    """

    rounds: dict[int, list[Round]] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)
    _reused: dict[int, int] = field(default_factory=dict)

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event. Rounds that were cancelled resolve nothing and leave none."""
        request = event["request"]
        match event["event"]:
            case "submit":
                self._rows[request] = event["rows"]
            case "resolve":
                each = Round(
                    proposals=self._rows[request] - 1,
                    emitted=len(event["emitted"]),
                    promoted=self._reused.get(request, 0) > 0,
                )
                self.rounds.setdefault(request, []).append(each)
                self._reused[request] = event["reused"]
