"""Bets that learn from the tokens before: where counts differ from what the rows promised, they go on to differ.

What is learned from a chunk of tokens is used from the next chunk on, so every bet is settled before its tokens are
seen. Learning may start afresh at any time; that costs power and never validity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eredu_validation.evidence.bets import Place
from eredu_validation.evidence.columns import Columns
from eredu_validation.evidence.emission import Floats, Integers
from eredu_validation.evidence.kept_bets import Arrays
from eredu_validation.evidence.payoff import Ratio
from eredu_validation.evidence.transforms import Order, View

Context = Callable[[Columns], Integers]
"""A small number that is known before each token, shape (n,)."""

RADIX = 1 << 20
"""More than any id, so that keys of several tokens never meet."""
LEAST_PROMISED = 1e-9
"""Tokens that a tilt divides by at the least: ids that should never come are for other bets."""
MOST_CELLS = 1 << 22
"""Counts that one universal bet may keep; contexts beyond that share one."""


def slot_context(columns: Columns) -> Integers:
    """The kind of place."""
    return columns.slots


def recent_context(columns: Columns) -> Integers:
    """The token before, and whether the token has a proposal."""
    number: Integers = (columns.recent[:, 1] + 1) * 2 + (columns.slots == 2)
    return number


def redrafted_context(columns: Columns) -> Integers:
    """The token before, the kind of place, and whether a proposal for the position was dropped before."""
    number: Integers = ((columns.recent[:, 1] + 1) * 3 + columns.slots) * 2 + columns.redrafted
    return number


def place_context(columns: Columns) -> Integers:
    """All that places a token: the kind of its place, its position in a short output, and the two tokens before."""
    place = (np.minimum(columns.positions, 31) * 8 + np.minimum(columns.offsets, 7)) * 2 + columns.redrafted
    number: Integers = place * RADIX**2 + pair_context(columns)
    return number


def pair_context(columns: Columns) -> Integers:
    """The two tokens before."""
    number: Integers = (columns.recent[:, 0] + 1) * RADIX + columns.recent[:, 1] + 1
    return number


@dataclass
class Universal:
    """For each context, p tilted by how often each id came against how often its rows promised it.

    Where all rows of a context are one row, that is (N(x) + a p(x)) / (n + a).

    Attributes:
        name: Names it.
        context: The context of each token.
        fractions: Shares of the wealth.
        prior: a, in tokens.
        most_cells: Counts kept at the most.
    """

    name: str
    context: Context
    fractions: tuple[float, ...] = (0.3, 0.99)
    prior: float = 50.0
    most_cells: int = MOST_CELLS
    _numbers: dict[int, int] = field(default_factory=dict)
    _seen: Floats = field(default_factory=lambda: np.zeros((1, 0)))
    _promised: Floats = field(default_factory=lambda: np.zeros((1, 0)))

    @property
    def names(self) -> tuple[str, ...]:
        """One name a fraction."""
        return tuple(f"universal by {self.name} {f:+g}" for f in self.fractions)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        columns = view.columns
        cells, target = (self._index(columns)[:, None], _ids(columns)), columns.target
        promised = self._promised[cells] + self.prior * target
        tilt = (self._seen[cells] + self.prior * target) / np.maximum(promised, LEAST_PROMISED)
        aim = target * tilt
        ratio = Ratio.of(columns, aim / aim.sum(axis=1, keepdims=True))
        return np.stack([ratio.log_growth(f, tolerance=tolerance) for f in self.fractions], axis=1)

    def learn(self, view: View) -> None:
        """Count the tokens and add up the rows."""
        columns = view.columns
        index, ids = self._index(columns), _ids(columns)
        tokens = np.broadcast_to(ids, columns.target.shape)[np.arange(len(columns)), columns.tokens]
        np.add.at(self._seen, (index, tokens), 1.0)
        np.add.at(self._promised, (index[:, None], ids), columns.target)

    def learned(self) -> Arrays:
        """Contexts in the order of their rows; what is not 0 in these rows, and one bit a cell that says where."""
        used = {"seen": self._seen, "promised": self._promised}
        rows = {name: array[: len(self._numbers) + 1].ravel() for name, array in used.items()}
        return {
            "contexts": np.array(list(self._numbers), dtype=np.int64),
            "width": np.array(self._seen.shape[1]),
            **{name: array[array != 0] for name, array in rows.items()},
            **{f"{name} places": np.packbits(array != 0) for name, array in rows.items()},
        }

    def recall(self, arrays: Arrays) -> None:
        """See `learned`."""
        self._numbers = {key: number for number, key in enumerate(arrays["contexts"].tolist(), start=1)}
        width = int(arrays["width"])
        if width:
            self._make_rows(width)
            cells = (len(self._numbers) + 1) * width
            for name, counts in (("seen", self._seen), ("promised", self._promised)):
                places = np.unpackbits(arrays[f"{name} places"], count=cells).astype(np.bool_)
                counts.reshape(-1)[:cells][places] = arrays[name]

    def _index(self, columns: Columns) -> Integers:
        """Rows of the counts; those of unknown contexts are made, or are row 0 where there is no more room."""
        keys = self.context(columns)
        # Two cells more, which the negative numbers of folded ids address.
        width = columns.vocabulary if columns.ids is None else columns.width + 2
        for key in np.unique(keys).tolist():
            if key not in self._numbers and (len(self._numbers) + 2) * width <= self.most_cells:
                self._numbers[key] = len(self._numbers) + 1
        if not self._seen.shape[1]:
            self._make_rows(width)
        return np.array([self._numbers.get(key, 0) for key in keys.tolist()], dtype=np.int64)

    def _make_rows(self, width: int) -> None:
        # All at once: the system gives memory where it is written, and growing would copy.
        shape = max(1, self.most_cells // width), width
        self._seen, self._promised = np.zeros(shape), np.zeros(shape)


def _ids(columns: Columns) -> Integers:
    """Ids of the cells, shape (n, V) or (1, V)."""
    return np.arange(columns.vocabulary)[None, :] if columns.ids is None else columns.ids


@dataclass
class Histogram:
    """The histogram of U in each kind of place.

    Attributes:
        order: The order of U.
        bins: Cells.
        prior: Tokens that a flat histogram counts as.
    """

    order: Order
    bins: int = 8
    prior: float = 100.0
    _counts: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._counts = np.zeros((3, self.bins))

    @property
    def names(self) -> tuple[str, ...]:
        """One name."""
        return (f"histogram of U by {self.order}",)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        cells = cells_of(view.uniforms[self.order], self.bins)
        return log_density(self._counts[view.columns.slots], cells, prior=self.prior, tolerance=tolerance)[:, None]

    def learn(self, view: View) -> None:
        """Count."""
        cells = cells_of(view.uniforms[self.order], self.bins)
        np.add.at(self._counts, (view.columns.slots, cells), 1.0)

    def learned(self) -> Arrays:
        """The counts."""
        return {"counts": self._counts}

    def recall(self, arrays: Arrays) -> None:
        """See `learned`."""
        self._counts = arrays["counts"].copy()


@dataclass
class Wave:
    """A tilt of U by a cosine, of the size and sign that the tokens so far showed.

    Attributes:
        order: The order of U.
        frequency: Half periods over [0, 1]: 1 tells low from high, 2 the middle from the ends.
        where: Names the place.
        place: Where to bet.
        prior: Tokens' worth of doubt.
    """

    order: Order
    frequency: int
    where: str
    place: Place
    prior: float = 100.0
    _sum: float = 0.0
    _squares: float = 0.0

    MOST: float = field(default=0.9, init=False)

    @property
    def names(self) -> tuple[str, ...]:
        """One name."""
        return (f"wave {self.frequency} of U by {self.order}{self.where}",)

    def log_growth(self, view: View, *, tolerance: float) -> Floats:
        """See `Family`."""
        fraction = float(np.clip(self._sum / (self._squares + self.prior), -self.MOST, self.MOST))
        payoff = 1 + fraction * self._wave(view)
        payoff = payoff / (1 + abs(fraction) * tolerance * 2)
        return np.where(self.place(view.columns), np.log(payoff), 0.0)[:, None]

    def learn(self, view: View) -> None:
        """Add up."""
        wave = self._wave(view)[self.place(view.columns)]
        self._sum += float(wave.sum())
        self._squares += float((wave**2).sum())

    def learned(self) -> Arrays:
        """Both sums."""
        return {"sums": np.array([self._sum, self._squares])}

    def recall(self, arrays: Arrays) -> None:
        """See `learned`."""
        self._sum, self._squares = arrays["sums"].tolist()

    def _wave(self, view: View) -> Floats:
        return np.cos(np.pi * self.frequency * view.uniforms[self.order])


def cells_of(uniforms: Floats, bins: int) -> Integers:
    """Which of equal cells each number lies in, shape (n,)."""
    return np.minimum((uniforms * bins).astype(np.int64), bins - 1)


def log_density(counts: Floats, cells: Integers, *, prior: float, tolerance: float) -> Floats:
    """Logarithm of a smoothed histogram's density on [0, 1], charged for the tolerance, shape (n,).

    Args:
        counts: Counts that each token is bet by, shape (n, bins).
        cells: Where its U lies, shape (n,).
        prior: Tokens that a flat histogram counts as.
        tolerance: Total variation that the null allows.
    """
    bins = counts.shape[1]
    density = bins * (counts + prior / bins) / (counts.sum(axis=1, keepdims=True) + prior)
    paid = np.take_along_axis(density, cells[:, None], axis=1)[:, 0]
    charge = 1 + tolerance * (density.max(axis=1) - density.min(axis=1))
    result: Floats = np.log(paid / charge)
    return result
