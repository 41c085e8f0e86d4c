"""Pairs of toy models for schedules: what the drafter gets right is known or chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eredu_reference.models import Drafter, ScriptedModel, TableModel, random_rows


class Pair(NamedTuple):
    """A target and a drafter over one vocabulary."""

    target: TableModel
    drafter: Drafter


def blurred(target: TableModel, amount: float, *, seed: int) -> TableModel:
    """The target's table, mixed with `amount` (0 to 1) of a random one."""
    noise = random_rows(len(target.rows), target.vocabulary, seed=seed)
    rows = {
        key: tuple((1 - amount) * own + amount * other for own, other in zip(row, noisy, strict=True))
        for (key, row), noisy in zip(target.rows.items(), noise, strict=True)
    }
    return TableModel(rows, target.order, target.context, target.fingerprint)


def shifted(target: TableModel) -> TableModel:
    """A table that says the next id instead: under greedy decoding it is always wrong."""
    rows = {key: (row[-1], *row[:-1]) for key, row in target.rows.items()}
    return TableModel(rows, target.order, target.context, target.fingerprint)


def table_pairs(vocabulary: int = 4) -> dict[str, Pair]:
    """Pairs by how well the drafter knows the target."""
    target = TableModel.random(vocabulary, order=2, seed=11, sharpness=2)
    sparse = TableModel.random(vocabulary, order=1, seed=13, zeros=0.4)
    return {
        "same": Pair(target, Drafter(target)),
        "near": Pair(target, Drafter(blurred(target, 0.3, seed=12))),
        "far": Pair(target, Drafter(TableModel.random(vocabulary, order=1, seed=14))),
        "wrong": Pair(target, Drafter(shifted(target))),
        "sparse": Pair(sparse, Drafter(blurred(sparse, 0.5, seed=15))),
    }


class Script(NamedTuple):
    """A target whose greedy output is written down, and drafters that are right or wrong where one says so.

    Attributes:
        vocabulary: Ids of both models.
        prompt: Prompt of the request.
        output: What the target says, position by position; its last id repeats for ever.
        context: Inputs that the target takes.
    """

    vocabulary: int
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    context: int = 4096

    @property
    def target(self) -> ScriptedModel:
        """The target."""
        return ScriptedModel(self.vocabulary, len(self.prompt), self.output, context=self.context)

    def drafter(self, wrong: Sequence[int] = (), *, context: int = 4096, max_proposals: int = 64) -> Drafter:
        """A drafter that is wrong (by one id) at the output positions `wrong` and right elsewhere."""
        model = ScriptedModel(self.vocabulary, len(self.prompt), self.output, context=context)
        for position in wrong:
            model = model.with_entry(position, (self.output[position] + 1) % self.vocabulary)
        return Drafter(model, max_proposals=max_proposals)
