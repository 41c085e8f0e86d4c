"""One emitted token as evidence: what it is, what it should have been drawn from, and what was known before.

Everything but `token` is known before the token is drawn. Whether it was an accepted proposal, a replacement or a
bonus is not, and has no place here: accepted tokens have the law min(p, q) normalised, not p.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """Where a token stands, as known before it is drawn.

    Attributes:
        offset: Its place in its block, from 0.
        proposals: k of its block. A token with `offset == proposals` has no proposal: a bonus, or plain decoding.
        promoted: Whether a promoted lookahead branch supplied the block's first proposals.
        redrafted: Whether an earlier block had a proposal for this very position, and dropped it.
        label: Anything else that is decided before the draw, such as a batch size or the state of a cache.
        known: Whether the engine told its rounds. Where it did not, offset and proposals are 0 and mean nothing.
    """

    offset: int
    proposals: int
    promoted: bool = False
    redrafted: bool = False
    label: str = ""
    known: bool = True

    @property
    def name(self) -> str:
        """Names the stratum in reports."""
        place = "no proposal" if self.offset >= self.proposals else f"offset {self.offset}"
        place = place if self.known else "place not told"
        marks = ("promoted" if self.promoted else "", "redrafted" if self.redrafted else "", self.label)
        return ", ".join((place, *(mark for mark in marks if mark)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round, as far as the strata of its tokens go.

    Attributes:
        proposals: Its k.
        emitted: How many tokens of it became output.
        promoted: Whether a promoted lookahead branch supplied its first proposals.
        known: Whether the engine told this round; else it stands for tokens of whatever rounds there were.
    """

    proposals: int
    emitted: int
    promoted: bool = False
    known: bool = True


def strata_of(rounds: Iterable[Round], *, label: str = "") -> list[Stratum]:
    """Strata of all tokens of a request, from its rounds in their order."""
    strata: list[Stratum] = []
    drafted = 0
    for each in rounds:
        start = len(strata)
        for offset in range(each.emitted):
            redrafted = start + offset < drafted
            strata.append(
                Stratum(
                    offset=offset,
                    proposals=each.proposals,
                    promoted=each.promoted,
                    redrafted=redrafted,
                    label=label,
                    known=each.known,
                )
            )
        drafted = max(drafted, start + each.proposals)
    return strata


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """One emitted token.

    Attributes:
        token: Its id.
        target: Processed target distribution at the exact history, shape (V,), float64; by teacher forcing on the
            plain path.
        stratum: Where it stands.
        request: Number of its request. The tokens of a request are given in their order.
        position: Its output position in the request.
        recent: Up to two tokens before it, the last one last, of prompt and output.
        draft: Processed distribution of the drafter at the same history, shape (V,); None where it is not known.
        lagged: The target's distribution one position earlier (or of any other stale state), shape (V,).
        unmasked: The target's distribution without grammar, filters and penalties, shape (V,); None where there are
            none.
    """

    token: int
    target: Floats
    stratum: Stratum
    request: int
    position: int
    recent: tuple[int, ...] = ()
    draft: Floats | None = None
    lagged: Floats | None = None
    unmasked: Floats | None = None
