"""One emitted token as evidence: what it is, what it should have been drawn from, and what was known before.

Everything but `token` is known before the token is drawn. Whether it was an accepted proposal, a replacement or a
bonus is not, and has no place here: accepted tokens have the law min(p, q) normalised, not p.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from eredu.errors import EvidenceError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]

SUM_TOLERANCE = 1e-6
"""How far from 1 a row may sum: float32 softmaxes over 150,000 ids stay within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """Where a token stands, as known before it is drawn.

    Attributes:
        offset: Its place in its block, from 0.
        proposals: k of its block. A token with `offset == proposals` has no proposal: a bonus, or plain decoding.
        promoted: Whether a promoted lookahead branch supplied the block's first proposals.
        redrafted: Whether an earlier block had a proposal for this very position, and dropped it.
        label: Anything else that is decided before the draw, such as a batch size or the state of a cache.
    """

    offset: int
    proposals: int
    promoted: bool = False
    redrafted: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        """Names the stratum in reports."""
        place = "no proposal" if self.offset >= self.proposals else f"offset {self.offset}"
        marks = ("promoted" if self.promoted else "", "redrafted" if self.redrafted else "", self.label)
        return ", ".join((place, *(mark for mark in marks if mark)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One round, as far as the strata of its tokens go.

    Attributes:
        proposals: Its k.
        emitted: How many tokens of it became output.
        promoted: Whether a promoted lookahead branch supplied its first proposals.
    """

    proposals: int
    emitted: int
    promoted: bool = False


def strata_of(blocks: Iterable[Block], *, label: str = "") -> list[Stratum]:
    """Strata of all tokens of a request, from its rounds in their order."""
    strata: list[Stratum] = []
    drafted = 0
    for block in blocks:
        start = len(strata)
        for offset in range(block.emitted):
            redrafted = start + offset < drafted
            strata.append(
                Stratum(
                    offset=offset,
                    proposals=block.proposals,
                    promoted=block.promoted,
                    redrafted=redrafted,
                    label=label,
                )
            )
        drafted = max(drafted, start + block.proposals)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Emissions as columns: n tokens over V ids. A row that is not known equals the target's, and no bet moves on it.

    Attributes:
        tokens: Shape (n,).
        target: Shape (n, V), float64.
        draft: Shape (n, V).
        lagged: Shape (n, V).
        unmasked: Shape (n, V).
        offsets: Shape (n,).
        proposals: Shape (n,).
        redrafted: Shape (n,).
        strata: Number of the stratum of each token in `names`, shape (n,).
        names: Names of strata.
        requests: Shape (n,).
        positions: Shape (n,).
        recent: The two tokens before, shape (n, 2), the last one in column 1; -1 where there is none.
    """

    tokens: Integers
    target: Floats
    draft: Floats
    lagged: Floats
    unmasked: Floats
    offsets: Integers
    proposals: Integers
    redrafted: Booleans
    strata: Integers
    names: tuple[str, ...]
    requests: Integers
    positions: Integers
    recent: Integers

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def vocabulary(self) -> int:
        """V."""
        return int(self.target.shape[1])

    @property
    def slots(self) -> Integers:
        """Kind of place of each token, shape (n,): 0 the first proposal, 1 a later one, 2 no proposal."""
        return np.where(self.offsets >= self.proposals, 2, np.minimum(self.offsets, 1))

    def part(self, first: int, last: int) -> Columns:
        """Tokens `first` to `last` - 1, as views."""
        cut = slice(first, last)
        return Columns(
            tokens=self.tokens[cut],
            target=self.target[cut],
            draft=self.draft[cut],
            lagged=self.lagged[cut],
            unmasked=self.unmasked[cut],
            offsets=self.offsets[cut],
            proposals=self.proposals[cut],
            redrafted=self.redrafted[cut],
            strata=self.strata[cut],
            names=self.names,
            requests=self.requests[cut],
            positions=self.positions[cut],
            recent=self.recent[cut],
        )

    def at_tokens(self, rows: Floats) -> Floats:
        """The entry of each row at its token, shape (n,)."""
        return np.take_along_axis(rows, self.tokens[:, None], axis=1)[:, 0]


def columns_of(emissions: Sequence[Emission]) -> Columns:
    """Columns of a non-empty batch. Raises `EvidenceError` for a row that is no distribution, or an id out of it."""
    if not emissions:
        raise EvidenceError("a batch of evidence was empty; give at least one emitted token")
    target = np.stack([item.target for item in emissions]).astype(np.float64, copy=False)
    names = tuple(dict.fromkeys(item.stratum.name for item in emissions))
    number = {name: index for index, name in enumerate(names)}
    columns = Columns(
        tokens=_integers([item.token for item in emissions]),
        target=target,
        draft=_rows([item.draft for item in emissions], target),
        lagged=_rows([item.lagged for item in emissions], target),
        unmasked=_rows([item.unmasked for item in emissions], target),
        offsets=_integers([item.stratum.offset for item in emissions]),
        proposals=_integers([item.stratum.proposals for item in emissions]),
        redrafted=np.array([item.stratum.redrafted for item in emissions], dtype=np.bool_),
        strata=_integers([number[item.stratum.name] for item in emissions]),
        names=names,
        requests=_integers([item.request for item in emissions]),
        positions=_integers([item.position for item in emissions]),
        recent=np.array([(-1, -1, *item.recent)[-2:] for item in emissions], dtype=np.int64),
    )
    check_columns(columns)
    return columns


def check_columns(columns: Columns) -> None:
    """Raise `EvidenceError` unless every row is a distribution and every id lies in it."""
    low, high = int(columns.tokens.min()), int(columns.tokens.max())
    if low < 0 or high >= columns.vocabulary:
        raise EvidenceError(f"ids from {low} to {high} were emitted over rows of {columns.vocabulary} ids")
    for name in ("target", "draft", "lagged", "unmasked"):
        rows = getattr(columns, name)
        if rows is columns.target and name != "target":
            continue
        sums = rows.sum(axis=1)
        # A comparison that NaN fails too.
        wrong = ~((np.abs(sums - 1) <= SUM_TOLERANCE) & (rows.min(axis=1) >= 0))
        if wrong.any():
            index = int(np.argmax(wrong))
            raise EvidenceError(
                f"the {name} row of request {columns.requests[index]}, position {columns.positions[index]} is no "
                f"distribution: it sums to {float(sums[index])!r}, its least entry is {float(rows[index].min())!r}"
            )


def _integers(values: list[int]) -> Integers:
    return np.array(values, dtype=np.int64)


def _rows(rows: list[Floats | None], target: Floats) -> Floats:
    if all(row is None for row in rows):
        return target
    return np.stack([target[index] if row is None else row for index, row in enumerate(rows)]).astype(np.float64)
