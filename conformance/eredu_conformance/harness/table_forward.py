"""One forward of the table executor over the rows of several sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eredu_reference.caches import Cache
from eredu_reference.models import Model, Output, feed


class Part(NamedTuple):
    """One sequence's share of a forward.

    Attributes:
        cache: Its cache, to which the inputs are appended.
        inputs: Token ids, as many as it has rows.
    """

    cache: Cache
    inputs: tuple[int, ...]


def forward(model: Model, parts: Sequence[Part]) -> list[list[Output] | Exception]:
    """Feed the parts together, a column of the padded batch at a time; return the rows of each, in order.

    A part that the model refuses is answered by the error, and the others go on.
    """
    firsts = [len(part.cache) for part in parts]
    results: list[list[Output] | Exception] = [[] for _ in parts]
    for column in range(max((len(part.inputs) for part in parts), default=0)):
        for place, (cache, inputs) in enumerate(parts):
            rows = results[place]
            if column >= len(inputs) or isinstance(rows, Exception):
                continue
            try:
                rows.append(feed(model, cache, inputs[column], firsts[place] + column))
            except Exception as error:
                results[place] = error
    return results
