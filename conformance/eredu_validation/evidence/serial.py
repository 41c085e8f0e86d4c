"""Serial bets: the U of a token given the U of an earlier one that it must have nothing to do with.

Each token alone may have its right law while two of them share a number. The partner is an earlier token of the same
request, and which one it is, is known before the token is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Floats, Integers
from eredu_validation.evidence.kept_bets import Arrays
from eredu_validation.evidence.learning import cells_of, log_density
from eredu_validation.evidence.transforms import Order, View


class Partner(StrEnum):
    """Which earlier token a token is compared with."""

    BEFORE = "the token before"
    """The one before it."""
    ROUND_BEFORE = "the round before"
    """The one at the same offset of the latest earlier block that had one."""
    CUT_BEFORE = "the last cut block"
    """The last token of the latest earlier block that ended before its proposals did."""


@dataclass
class Serial:
    """A histogram of U in each cell of the partner's U, and in each kind of both places.

    Attributes:
        order: The order of U.
        partner: The earlier token.
        bins: Cells of either.
        prior: Tokens that a flat histogram counts as.
    """

    order: Order
    partner: Partner
    bins: int = 6
    prior: float = 30.0
    _counts: Floats = field(init=False)
    _memory: dict[int, Memory] = field(default_factory=dict)
    _keys: tuple[Columns, Integers] | None = None

    def __post_init__(self) -> None:
        # One cell more for tokens that have no partner yet; kinds of place 3 x 3.
        self._counts = np.zeros((9 * (self.bins + 1), self.bins))

    @property
    def names(self) -> tuple[str, ...]:
        """One name."""
        return (f"serial with {self.partner} by {self.order}",)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        keys = self._partners(view)
        cells = cells_of(view.uniforms[self.order], self.bins)
        logs = log_density(self._counts[keys], cells, prior=self.prior, tolerance=tolerance)
        return np.where(keys % (self.bins + 1) < self.bins, logs, 0.0)[:, None]

    def learn(self, view: View) -> None:
        """Count."""
        cells = cells_of(view.uniforms[self.order], self.bins)
        np.add.at(self._counts, (self._partners(view), cells), 1.0)

    def learned(self) -> Arrays:
        """The counts; the memory is of single requests."""
        return {"counts": self._counts}

    def recall(self, arrays: Arrays) -> None:
        """See `learned`."""
        self._counts = arrays["counts"].copy()

    def _partners(self, view: View) -> Integers:
        """Row of the counts for each token: both kinds of place, and the cell of the partner's U."""
        columns = view.columns
        if self._keys is not None and self._keys[0] is columns:
            return self._keys[1]
        cells = cells_of(view.uniforms[self.order], self.bins).tolist()
        slots, keys = columns.slots.tolist(), []
        for number, request in enumerate(columns.requests.tolist()):
            memory = self._memory.setdefault(request, Memory())
            offset, proposals = int(columns.offsets[number]), int(columns.proposals[number])
            memory.arrive(offset)
            slot, cell = memory.look(self.partner, offset) or (0, self.bins)
            keys.append((slots[number] * 3 + slot) * (self.bins + 1) + cell)
            memory.note(offset, proposals, (slots[number], cells[number]))
        self._keys = columns, np.array(keys, dtype=np.int64)
        return self._keys[1]


Seen = tuple[int, int]
"""Kind of place and cell of U of an earlier token."""


@dataclass
class Memory:
    """The earlier tokens of one request."""

    last: Seen | None = None
    last_is_cut: bool = False
    cut: Seen | None = None
    by_offset: dict[int, Seen] = field(default_factory=dict)

    def arrive(self, offset: int) -> None:
        """A token comes; at offset 0 the block before it has ended, and whether it was cut is known now."""
        if offset == 0 and self.last_is_cut:
            self.cut = self.last

    def look(self, partner: Partner, offset: int) -> Seen | None:
        """The partner of a token at `offset`, or None."""
        match partner:
            case Partner.BEFORE:
                return self.last
            case Partner.ROUND_BEFORE:
                return self.by_offset.get(offset)
            case Partner.CUT_BEFORE:
                return self.cut

    def note(self, offset: int, proposals: int, seen: Seen) -> None:
        """Remember a token."""
        self.last, self.last_is_cut = seen, offset < proposals
        self.by_offset[offset] = seen


PARTNERS: Mapping[Partner, tuple[Order, ...]] = {
    Partner.BEFORE: (Order.ID, Order.RATIO),
    Partner.ROUND_BEFORE: (Order.ID, Order.RATIO),
    Partner.CUT_BEFORE: (Order.ID,),
}
"""Serial bets of the portfolio."""
