"""Emissions as columns: arrays that all bets read, checked once, and folded where the vocabulary is large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence.emission import Booleans, Emission, Floats, Integers
from eredu_validation.evidence.folding import FOLDED_CELLS, Folding

SUM_TOLERANCE = 1e-6
"""How far from 1 a row may sum: float32 softmaxes over 150,000 ids stay within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """n tokens over V cells: ids, or what ids are folded into. A row that is not known equals the target's.

    No bet moves on a row that equals the target's.

    Attributes:
        tokens: Cell of each token, shape (n,).
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
        ids: The id of each cell, shape (n, V), -1 and -2 for the folded ones; None where cells are ids.
        width: Ids of the unfolded vocabulary.
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
    ids: Integers | None = None
    width: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def vocabulary(self) -> int:
        """V, the number of cells."""
        return int(self.target.shape[1])

    @property
    def slots(self) -> Integers:
        """Kind of place of each token, shape (n,): 0 the first proposal, 1 a later one, 2 no proposal."""
        return np.where(self.offsets >= self.proposals, 2, np.minimum(self.offsets, 1))

    def part(self, first: int, last: int) -> Columns:
        """Tokens `first` to `last` - 1, as views."""
        return self._cut(slice(first, last))

    def taken(self, numbers: Integers) -> Columns:
        """The tokens of some numbers, shape (m,)."""
        return self._cut(numbers)

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Several, at least one, one behind the other. Their cells and widths must be alike."""
        if len(parts) == 1:
            return parts[0]
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        target = np.concatenate([part.target for part in parts])

        def rows(name: str) -> Floats:
            each = [getattr(part, name) for part in parts]
            same = all(mine is part.target for mine, part in zip(each, parts, strict=True))
            return target if same else np.concatenate(each)

        def together(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            tokens=together("tokens"),
            target=target,
            draft=rows("draft"),
            lagged=rows("lagged"),
            unmasked=rows("unmasked"),
            offsets=together("offsets"),
            proposals=together("proposals"),
            redrafted=together("redrafted"),
            strata=np.concatenate([_integers([names.index(n) for n in part.names])[part.strata] for part in parts]),
            names=names,
            requests=together("requests"),
            positions=together("positions"),
            recent=together("recent"),
            ids=None if parts[0].ids is None else together("ids"),
            width=parts[0].width,
        )

    def _cut(self, cut: slice | Integers) -> Columns:
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
            ids=None if self.ids is None else self.ids[cut],
            width=self.width,
        )

    def at_tokens(self, rows: Floats) -> Floats:
        """The entry of each row at its token, shape (n,)."""
        return np.take_along_axis(rows, self.tokens[:, None], axis=1)[:, 0]


def columns_of(emissions: Sequence[Emission], *, cells: int = FOLDED_CELLS) -> Columns:
    """Columns of a non-empty batch, folded to `cells` where the vocabulary is larger.

    Raises `EvidenceError` for a row that is no distribution, or an id out of it.
    """
    if not emissions:
        raise EvidenceError("a batch of evidence was empty; give at least one emitted token")
    width = len(emissions[0].target)
    tables = _folded(emissions, cells) if width > cells else _whole(emissions)
    names = tuple(dict.fromkeys(item.stratum.name for item in emissions))
    number = {name: index for index, name in enumerate(names)}
    columns = Columns(
        tokens=tables.tokens,
        target=tables.target,
        draft=tables.draft,
        lagged=tables.lagged,
        unmasked=tables.unmasked,
        offsets=_integers([item.stratum.offset for item in emissions]),
        proposals=_integers([item.stratum.proposals for item in emissions]),
        redrafted=np.array([item.stratum.redrafted for item in emissions], dtype=np.bool_),
        strata=_integers([number[item.stratum.name] for item in emissions]),
        names=names,
        requests=_integers([item.request for item in emissions]),
        positions=_integers([item.position for item in emissions]),
        recent=np.array([(-1, -1, *item.recent)[-2:] for item in emissions], dtype=np.int64),
        ids=tables.ids,
        width=width,
    )
    check_columns(columns)
    return columns


@dataclass(frozen=True)
class _Tables:
    tokens: Integers
    target: Floats
    draft: Floats
    lagged: Floats
    unmasked: Floats
    ids: Integers | None = None


def _whole(emissions: Sequence[Emission]) -> _Tables:
    target = np.stack([item.target for item in emissions]).astype(np.float64, copy=False)
    return _Tables(
        _integers([item.token for item in emissions]),
        target,
        _rows([item.draft for item in emissions], target),
        _rows([item.lagged for item in emissions], target),
        _rows([item.unmasked for item in emissions], target),
    )


def _folded(emissions: Sequence[Emission], cells: int) -> _Tables:
    foldings = [Folding.of(item.target, item.target if item.draft is None else item.draft, cells) for item in emissions]
    for item in emissions:
        if not 0 <= item.token < len(item.target):
            raise EvidenceError(f"id {item.token} was emitted over a row of {len(item.target)} ids")
    pairs = list(zip(emissions, foldings, strict=True))
    target = np.stack([folding.fold(item.target) for item, folding in pairs]).astype(np.float64, copy=False)
    return _Tables(
        _integers([folding.cell(item.token) for item, folding in pairs]),
        target,
        _rows([None if item.draft is None else folding.fold(item.draft) for item, folding in pairs], target),
        _rows([None if item.lagged is None else folding.fold(item.lagged) for item, folding in pairs], target),
        _rows([None if item.unmasked is None else folding.fold(item.unmasked) for item, folding in pairs], target),
        np.stack([folding.ids for folding in foldings]),
    )


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
