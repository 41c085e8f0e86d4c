"""What every family's prediction heads have in common, as the embedded executor sees them.

A head step takes the hidden state of position t and the token of position t + 1, and predicts the token of t + 2. Its
cache row stands at position t. Hidden states of the target are true; a head's own outputs, fed onward within a block,
are guesses, and their cache rows never outlive the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn

from eredu.contract.errors import CapabilityError
from eredu.mlx.taps import Recording


@dataclass(frozen=True, slots=True)
class HeadTraits:
    """What the executor must know of a checkpoint's heads.

    Attributes:
        stages: Heads with weights and a cache of their own.
        max_proposals: Validated proposals a round: the stages, or more where the last one is iterated.
        iterable: Whether the last stage can read its own outputs, so that `max_proposals` may pass the stages.
        settled: Whether the wiring is known: nobody disagrees on it, or the checkpoint states it. Else a probe decides.
    """

    stages: int
    max_proposals: int
    iterable: bool = False
    settled: bool = True

    def __post_init__(self) -> None:
        if self.max_proposals > self.stages and not self.iterable:
            raise CapabilityError(
                f"{self.max_proposals} proposals a round were asked of {self.stages} prediction heads that cannot be "
                "iterated; ask for no more than there are heads"
            )

    def stage_of(self, index: int) -> int:
        """The stage that makes proposal `index`, from 0: in order, then the last one again and again."""
        return min(index, self.stages - 1)


class PredictionHeads(Protocol):
    """The heads of one loaded checkpoint."""

    @property
    def traits(self) -> HeadTraits:
        """Stages and cap."""
        ...

    @property
    def modules(self) -> Sequence[nn.Module]:
        """All weights of the heads, none of the target's."""
        ...

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states that the heads were trained on, shape (rows, hidden size), from its taps."""
        ...

    def new_caches(self, bucket: int | None = None) -> list[Any]:
        """One empty cache a stage, each rolled back exactly by length; for `bucket` see `RollbackCache`."""
        ...

    def step(self, stage: int, hidden: mx.array, tokens: mx.array, cache: Any) -> mx.array:
        """Run one stage over consecutive positions.

        Args:
            stage: Number of the stage, from 0.
            hidden: Hidden states of the positions, shape (rows, hidden size).
            tokens: The token behind each position, shape (rows,), uint32.
            cache: The stage's cache; the first row goes behind its rows.

        Returns:
            The stage's outputs, shape (rows, hidden size): what the next stage takes as hidden states.
        """
        ...

    def logits(self, stage: int, outputs: mx.array) -> mx.array:
        """Logits of outputs of a stage, shape (rows, vocabulary)."""
        ...

    def variants(self) -> Mapping[str, PredictionHeads]:
        """The same weights under each wiring that published sources name, in words, the most trusted first.

        Only itself where nobody disagrees. The probe picks the one under which the head agrees with its target.
        """
        ...

    def misreadings(self) -> Mapping[str, PredictionHeads]:
        """The same weights as they were if the files had been misread, in words: what a probe must find worse."""
        ...

    def capped(self, max_proposals: int) -> PredictionHeads:
        """The same heads with another cap. Raises `CapabilityError` past the stages of heads that do not iterate."""
        ...
