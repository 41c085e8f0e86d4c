"""What a drafter knows: its cache, and how much of it came from the target rather than from its own guesses."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import Cache
from eredu_reference.constraint import State
from eredu_reference.rows import Row


@dataclass
class Frontier:
    """The inputs that a drafter has taken.

    Attributes:
        cache: The drafter's cache: a beginning of the committed tokens and the proposals behind them.
        trusted: Rows from the start whose hidden state came from the target; all rows, where none is read.
    """

    cache: Cache
    trusted: int = 0

    def rollback(self, length: int) -> None:
        """Forget every input behind the first `length`."""
        self.cache.rollback(length)
        self.trusted = min(self.trusted, length)

    def copy(self) -> Frontier:
        """A frontier of its own."""
        return Frontier(self.cache.copy(), self.trusted)


@dataclass(frozen=True)
class Block:
    """Proposals in order, the distribution that each was drawn from, and the exact frontier behind them.

    Attributes:
        tokens: The proposals.
        rows: Recorded q of each, shape (V,) each.
        frontier: The drafter behind them; the last proposal is not fed yet. None without a drafter.
        grammar: State of the grammar behind the last proposal.
    """

    tokens: tuple[int, ...]
    rows: tuple[Row, ...]
    frontier: Frontier | None
    grammar: State
