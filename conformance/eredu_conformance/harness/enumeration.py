"""The law of an engine by enumeration: every outcome of every draw, each with its exact probability.

The number at an address is uniform on [0, 1) and known only as an interval. A comparison splits the interval, a
categorical draw cuts it at the cumulative sums of the row; each part is followed, weighted by its share. Because the
interval stays with its address, an engine that reads one address twice meets the same number again, and the
correlation shows in its law. Weights are float64: sums of a few thousand products, good to about 1e-13.

What is enumerated is the law given this way of drawing from a row. The rules promise losslessness for any way of
drawing from independent numbers, so the Gumbel-max draw of real sources is not needed here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np

from eredu_reference.rows import Row, check_distribution
from eredu_reference.sources import Address, Uniform

OutcomeT = TypeVar("OutcomeT", bound=Hashable)

SLIVER = 1e-13
"""Parts of an interval smaller than this share of it are rounding of the cumulative sums, and are not followed."""


class NotEnumerable(Exception):  # noqa: N818
    """Raised where an engine asks for the value of a number of which only an interval is known."""


class TooManyPaths(Exception):  # noqa: N818
    """Raised where an enumeration exceeds its bound: the case is too large, or the engine does not end."""


@dataclass
class EnumeratingSource:
    """One path through all outcomes.

    Attributes:
        script: Choices to follow; behind its end the first possible choice is taken.
        taken: Choices taken so far.
        others: For each choice behind the script's end, the possible choices that were not taken.
        weight: Probability of the path.
        cells: What is known of the number at each address.
    """

    script: tuple[int, ...]
    taken: list[int] = field(default_factory=list)
    others: list[tuple[int, ...]] = field(default_factory=list)
    weight: float = 1.0
    cells: dict[Address, tuple[float, float]] = field(default_factory=dict)

    def uniform(self, address: Address) -> Uniform:
        """The coin at an address, as far as it is known."""
        return LazyUniform(self, address)

    def categorical(self, address: Address, row: Row) -> int:
        """Inverse-CDF draw."""
        check_distribution(row, name="drawn")
        edges = [0.0, *np.minimum(np.cumsum(row), 1.0).tolist()]
        # The rounding error of the sum goes to the last possible id: an impossible one must not have even a sliver.
        last = int(row.nonzero()[0][-1])
        edges[last + 1 :] = [1.0] * (len(row) - last)
        return self.choose(address, edges)

    def choose(self, address: Address, edges: Sequence[float]) -> int:
        """Say in which of the parts between `edges` the number at an address lies, following one possibility."""
        low, high = self.cells.get(address, (0.0, 1.0))
        parts = [(max(low, a), min(high, b)) for a, b in pairwise(edges)]
        sizes = [b - a for a, b in parts]
        possible = [i for i, size in enumerate(sizes) if size > SLIVER * (high - low)]
        if len(possible) == 1:
            return possible[0]
        step = len(self.taken)
        if step < len(self.script):
            choice = self.script[step]
        else:
            choice = possible[0]
            self.others.append(tuple(possible[1:]))
        self.taken.append(choice)
        self.weight *= sizes[choice] / (high - low)
        self.cells[address] = parts[choice]
        return choice


@dataclass(frozen=True)
class LazyUniform:
    """A uniform number of which only an interval is known."""

    source: EnumeratingSource
    address: Address

    @property
    def value(self) -> float:
        """Not known: raises `NotEnumerable`."""
        raise NotEnumerable(f"the number at {self.address} is known as an interval only; compare it")

    def below(self, numerator: float, denominator: float = 1.0) -> bool:
        """Whether u * denominator < numerator: one of the two, each in its turn."""
        threshold = (1.0 if numerator > 0 else 0.0) if denominator == 0 else numerator / denominator
        return self.source.choose(self.address, [0.0, min(max(threshold, 0.0), 1.0), 1.0]) == 0


def enumerate_law(
    experiment: Callable[[EnumeratingSource], OutcomeT], *, most_paths: int = 50_000
) -> dict[OutcomeT, float]:
    """Probability of every outcome of an experiment that draws from the source it is given.

    Args:
        experiment: Runs once for each path, from the beginning.
        most_paths: Bound. Raises `TooManyPaths` beyond it.
    """
    law: dict[OutcomeT, float] = {}
    pending: list[tuple[int, ...]] = [()]
    paths = 0
    while pending:
        paths += 1
        if paths > most_paths:
            raise TooManyPaths(f"more than {most_paths} paths")
        script = pending.pop()
        source = EnumeratingSource(script)
        outcome = experiment(source)
        law[outcome] = law.get(outcome, 0.0) + source.weight
        for depth, others in enumerate(source.others, start=len(script)):
            pending += [(*source.taken[:depth], other) for other in others]
    return law
