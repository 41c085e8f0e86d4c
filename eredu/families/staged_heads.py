"""Heads with a stage for each proposal, fused from an embedding and a hidden state: DeepSeek's and Nemotron-H's.

x = eh_proj([enorm(embedding of the next token); hnorm(hidden state)]), blocks of the target's own kind, a norm of the
stage's own, an output projection. Stage s + 1 reads what stage s gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import Wiring
from eredu.families.fused_heads import FINAL_NORM
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import HeadTraits
from eredu.families.routing import BIAS
from eredu.families.target_parts import TargetParts
from eredu.mlx.taps import Recording, tap

ITERATED_PROPOSALS = 3
"""Proposals a round where one stage is run again and again, the depth to which public engines report acceptance."""


class StageModule(nn.Module):
    """The weights of one stage; a family adds its blocks and their norm.

    Args:
        hidden_size: Width of the target's residual.
        eps: Of the norms.
    """

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.enorm = nn.RMSNorm(hidden_size, eps=eps)
        self.hnorm = nn.RMSNorm(hidden_size, eps=eps)
        self.eh_proj = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    @property
    def cast_predicate(self) -> Callable[[str], bool]:
        """Whether a weight may be cast: biases that only order experts would round to another order."""
        return lambda name: BIAS not in name

    def new_cache(self, bucket: int | None = None) -> Any:
        """An empty cache that rolls back exactly by length. `bucket`: see `RollbackCache`."""
        raise NotImplementedError

    def run_blocks(self, x: mx.array, cache: Any) -> mx.array:
        """The stage's blocks over consecutive positions, shapes (1, rows, hidden size)."""
        raise NotImplementedError

    def norm_output(self, y: mx.array) -> mx.array:
        """The stage's own norm behind its blocks."""
        raise NotImplementedError


@dataclass(frozen=True)
class Stage:
    """One stage, complete.

    Attributes:
        module: Its weights.
        embed: Embeds tokens (rows,) as (rows, hidden size); the target's embedding unless the checkpoint differs.
        project: From (rows, hidden size) to logits (rows, vocabulary), likewise.
        own: Those of the two that are the stage's own.
    """

    module: StageModule
    embed: Callable[[mx.array], mx.array]
    project: Callable[[mx.array], mx.array]
    own: tuple[nn.Module, ...] = ()


@dataclass(frozen=True)
class StagedHeads:
    """The stages of one loaded checkpoint; the last is iterated for more proposals than there are stages.

    Attributes:
        stages: In the order of the proposals that they make.
        final_norm: The target's final norm; it is tapped.
        traits: A proposal a stage, the last iterated.
        wiring: See `Wiring`.
    """

    stages: tuple[Stage, ...]
    final_norm: nn.Module
    traits: HeadTraits
    wiring: Wiring

    def __post_init__(self) -> None:
        tap(self.final_norm, FINAL_NORM)

    @classmethod
    def of(cls, stages: Sequence[Stage], parts: TargetParts, tensors: HeadTensors) -> StagedHeads:
        """Heads with the wiring that their checkpoint states, or with their family's until a probe settles it."""
        stated, depth = tensors.stated_wiring, max(len(stages), ITERATED_PROPOSALS)
        traits = HeadTraits(len(stages), depth, iterable=True, settled=stated is not None)
        return cls(tuple(stages), parts.norm, traits, stated or tensors.default_wiring)

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The weights of every stage."""
        return tuple(module for stage in self.stages for module in (stage.module, *stage.own))

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states on the side of its final norm that the wiring names."""
        rows = record.outputs if self.wiring.hidden_after_norm else record.inputs
        return rows[FINAL_NORM][0]

    def new_caches(self, bucket: int | None = None) -> list[Any]:
        """One cache a stage."""
        return [stage.module.new_cache(bucket) for stage in self.stages]

    def step(self, stage: int, hidden: mx.array, tokens: mx.array, cache: Any) -> mx.array:
        """Outputs of one stage, shape (rows, hidden size), as the next stage reads them."""
        module = self.stages[stage].module
        normed = [module.enorm(self.stages[stage].embed(tokens)), module.hnorm(hidden)]
        halves = normed[::-1] if self.wiring.hidden_first else normed
        y = module.run_blocks(module.eh_proj(mx.concatenate(halves, axis=-1))[None], cache)[0]
        return module.norm_output(y) if self.wiring.chain_after_norm else y

    def logits(self, stage: int, outputs: mx.array) -> mx.array:
        """Logits of outputs of a stage, shape (rows, vocabulary)."""
        normed = outputs if self.wiring.chain_after_norm else self.stages[stage].module.norm_output(outputs)
        return self.stages[stage].project(normed)

    def variants(self) -> Mapping[str, StagedHeads]:
        """Every wiring, its own first."""
        others = [Wiring(*flags) for flags in product((True, False), repeat=3)]
        return {str(wiring): replace(self, wiring=wiring) for wiring in dict.fromkeys([self.wiring, *others])}

    def misreadings(self) -> Mapping[str, StagedHeads]:
        """None: the norms of these families multiply as they are stored, in every layout."""
        return {}

    def capped(self, max_proposals: int) -> StagedHeads:
        """The same heads with another cap."""
        return replace(self, traits=replace(self.traits, max_proposals=max_proposals))
