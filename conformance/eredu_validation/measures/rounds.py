"""The rounds of each request, read off the scheduler's trace: what is known of a token's place before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eredu_validation.evidence import Block


@dataclass
class RoundLog:
    """A sink for the events of one call.

    Attributes:
        blocks: The committed rounds of each request, in their order.
    """

    blocks: dict[int, list[Block]] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)
    _reused: dict[int, int] = field(default_factory=dict)

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event. Rounds that were cancelled resolve nothing and leave no block."""
        request = event["request"]
        match event["event"]:
            case "submit":
                self._rows[request] = event["rows"]
            case "resolve":
                block = Block(
                    proposals=self._rows[request] - 1,
                    emitted=len(event["emitted"]),
                    promoted=self._reused.get(request, 0) > 0,
                )
                self.blocks.setdefault(request, []).append(block)
                self._reused[request] = event["reused"]
