"""Cases on small tables, made from a seed: a target, a drafter and a request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eredu_reference import Drafter, Model, Request
from eredu_reference.models import TableModel

VOCABULARY = 5


@dataclass(frozen=True)
class Case:
    """One thing to decode.

    Attributes:
        target: The model whose law counts.
        drafter: The model that proposes.
        request: What is asked.
    """

    target: Model
    drafter: Drafter
    request: Request

    def with_request(self, **changes: object) -> Case:
        """A copy with a changed request."""
        return replace(self, request=replace(self.request, **changes))  # type: ignore[arg-type]

    def greedy(self) -> Case:
        """A copy at temperature 0."""
        return self.with_request(sampling=replace(self.request.sampling, temperature=0.0))


def table_case(seed: int) -> Case:
    """A table of order 2 and an unrelated drafter of order 1."""
    drafter = Drafter(TableModel.random(VOCABULARY, order=1, seed=seed + 1, sharpness=2.0))
    return Case(_table(seed, sharpness=2.0), drafter, _request(seed, max_tokens=11))


def twin_case(seed: int) -> Case:
    """The drafter is the target, p = q: blocks are accepted, branches promoted."""
    table = _table(seed, sharpness=2.0)
    return Case(table, Drafter(table), _request(seed, max_tokens=14))


def near_case(seed: int) -> Case:
    """The drafter agrees with the target on most rows: promotions and rejections follow each other."""
    table, other = _table(seed, sharpness=3.0), _table(seed + 1, sharpness=3.0)
    mixed = {key: (other.rows[key] if sum(key) % 4 == seed % 4 else row) for key, row in table.rows.items()}
    return Case(table, Drafter(TableModel(mixed, order=2)), _request(seed, max_tokens=14))


def _table(seed: int, *, sharpness: float) -> TableModel:
    return TableModel.random(VOCABULARY, order=2, seed=seed, sharpness=sharpness)


def _request(seed: int, *, max_tokens: int) -> Request:
    return Request(prompt=(1, 3, 0, 2, 2, 4), max_tokens=max_tokens, seed=seed, max_proposals=2 + seed % 2)
