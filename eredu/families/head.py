"""What every family's prediction heads have in common, as the embedded executor sees them.

A head step takes the hidden state of position t and the token of position t + 1, and predicts the token of t + 2. Its
cache row stands at position t. Hidden states of the target are true; a head's own outputs, fed onward within a block,
are guesses, and their cache rows never outlive the round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx

from eredu.mlx.taps import Recording


@dataclass(frozen=True, slots=True)
class HeadTraits:
    """What the executor must know of a checkpoint's heads.

    Attributes:
        stages: Heads with weights and a cache of their own.
        max_proposals: Validated proposals a round: the stages, or more where the last one may be iterated.
    """

    stages: int
    max_proposals: int

    def stage_of(self, index: int) -> int:
        """The stage that makes proposal `index`, from 0: in order, then the last one again and again."""
        return min(index, self.stages - 1)


class PredictionHeads(Protocol):
    """The heads of one loaded checkpoint."""

    @property
    def traits(self) -> HeadTraits:
        """Stages and cap."""
        ...

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states that the heads were trained on, shape (rows, hidden size), from its taps."""
        ...

    def new_caches(self) -> list[Any]:
        """One empty cache a stage; each rolls back exactly by length."""
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
