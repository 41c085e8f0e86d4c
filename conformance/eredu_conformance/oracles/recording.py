"""A random source that writes down each read: the ledger of addresses, between the engine's own events."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference import RandomSource
from eredu_reference.decoding import Event
from eredu_reference.rows import Row
from eredu_reference.sources import Address, Uniform


@dataclass
class RecordingSource:
    """Reads through another source and logs every read.

    Attributes:
        inner: The source of the numbers.
        events: The engine's log, which the reads are added to as `read` events: `kind` (coin or token), `address`,
            `row` (None for a coin) and `token` (None for a coin).
    """

    inner: RandomSource
    events: list[Event]

    def uniform(self, address: Address) -> Uniform:
        """Log and read a coin."""
        self.events.append({"event": "read", "kind": "coin", "address": address, "row": None, "token": None})
        return self.inner.uniform(address)

    def categorical(self, address: Address, row: Row) -> int:
        """Log and draw a token."""
        token = self.inner.categorical(address, row)
        self.events.append({"event": "read", "kind": "token", "address": address, "row": row, "token": token})
        return token
