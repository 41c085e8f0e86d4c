"""The prediction heads of a loaded checkpoint: a stage for each proposal, as drafting, probing and training see them.

A head step takes the hidden state of position t and the token of position t + 1, and predicts the token of t + 2. Its
cache row stands at position t. Hidden states of the target are true; a head's own outputs, fed onward within a block,
are guesses, and their cache rows never outlive the round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import AFTER_NORMS, Wiring, stated_wiring
from eredu.contract.errors import CapabilityError
from eredu.families.head_tensors import HeadTensors
from eredu.families.stages import Stage, StoredModule
from eredu.families.target_parts import TargetParts
from eredu.mlx.taps import Recording, tap

FINAL_NORM = "final_norm"
"""Name of the tap on the target's final norm."""
ITERATED_PROPOSALS = 3
"""Proposals a round where one stage is run again and again, the depth to which public engines report acceptance."""


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


@dataclass(frozen=True)
class PredictionHeads:
    """The stages of one loaded checkpoint; the last is iterated for more proposals than there are stages.

    Attributes:
        stages: In the order of the proposals that they make.
        final_norm: The target's final norm; it is tapped.
        traits: A proposal a stage, the last iterated.
        wiring: See `Wiring`.
        offset_norms: The same stages with norms that are higher by a number, where published files store them as
            offsets from one, so that they may have been misread; None where norms multiply as they are stored.
    """

    stages: tuple[Stage, ...]
    final_norm: nn.Module
    traits: HeadTraits
    wiring: Wiring
    offset_norms: Callable[[float], tuple[Stage, ...]] | None = None

    def __post_init__(self) -> None:
        tap(self.final_norm, FINAL_NORM)

    @classmethod
    def of(
        cls,
        stages: Sequence[Stage],
        parts: TargetParts,
        tensors: HeadTensors,
        *,
        depth: int = ITERATED_PROPOSALS,
        wiring: Wiring = AFTER_NORMS,
    ) -> PredictionHeads:
        """Heads with the wiring that their checkpoint states, or the family's until a probe settles it.

        They are iterated to `depth` proposals a round where there are fewer stages.
        """
        stated = stated_wiring(tensors.config)
        traits = HeadTraits(len(stages), max(len(stages), depth), iterable=True, settled=stated is not None)
        return cls(tuple(stages), parts.norm, traits, stated or wiring)

    @property
    def modules(self) -> tuple[StoredModule, ...]:
        """All weights of the heads, each once, none of the target's."""
        found = [module for stage in self.stages for module in (stage.module, *stage.own)]
        return tuple({id(module): module for module in found}.values())

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states that the wiring names, shape (rows, hidden size), from its taps."""
        rows = record.outputs if self.wiring.hidden_after_norm else record.inputs
        return rows[FINAL_NORM][0]

    def new_caches(self, bucket: int | None = None) -> list[Any]:
        """One empty cache a stage, each rolled back exactly by length; for `bucket` see `RollbackCache`."""
        return [stage.module.new_cache(bucket) for stage in self.stages]

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
        module = self.stages[stage].module
        x = module.fuse(self.stages[stage].embed(tokens), hidden, hidden_first=self.wiring.hidden_first)
        y = module.run_blocks(x, cache, stage)[0]
        return module.norm_output(y) if self.wiring.chain_after_norm else y

    def logits(self, stage: int, outputs: mx.array) -> mx.array:
        """Logits of outputs of a stage, shape (rows, vocabulary)."""
        normed = outputs if self.wiring.chain_after_norm else self.stages[stage].module.norm_output(outputs)
        return self.stages[stage].project(normed)

    def variants(self) -> Mapping[str, PredictionHeads]:
        """The same heads under every wiring, their own first; a probe picks the one under which they follow."""
        others = [Wiring(*flags) for flags in product((False, True), repeat=3)]
        return {str(wiring): replace(self, wiring=wiring) for wiring in dict.fromkeys([self.wiring, *others])}

    def misreadings(self) -> Mapping[str, PredictionHeads]:
        """The same heads with norms one lower and one higher, as if offsets from one had been misread."""
        if self.offset_norms is None:
            return {}
        offsets = {"norms shifted once less": -1.0, "norms shifted once more": 1.0}
        return {name: replace(self, stages=self.offset_norms(offset)) for name, offset in offsets.items()}

    def capped(self, max_proposals: int) -> PredictionHeads:
        """The same heads with another cap. Raises `CapabilityError` past the stages of heads that do not iterate."""
        return replace(self, traits=replace(self.traits, max_proposals=max_proposals))
