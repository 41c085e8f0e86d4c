"""Heads with a stage for each proposal, fused from an embedding and a hidden state.

x = fuse([norm(embedding of the next token); norm(hidden state)]), blocks of the target's own kind, a norm, an output
projection. Stage s + 1 reads what stage s gives. Stages have weights of their own (DeepSeek, Nemotron-H), or share all
but their blocks (Qwen).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import Wiring
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import HeadTraits
from eredu.families.routing import BIAS
from eredu.families.target_parts import TargetParts
from eredu.mlx.taps import Recording, tap

FINAL_NORM = "final_norm"
"""Name of the tap on the target's final norm."""
ITERATED_PROPOSALS = 3
"""Proposals a round where one stage is run again and again, the depth to which public engines report acceptance."""


class StageModule(nn.Module):
    """The weights of one stage or of several; a family adds the blocks and the norm behind them.

    Args:
        hidden_size: Width of the target's residual.
        eps: Of the norms.
    """

    fusion: ClassVar[tuple[str, str, str]] = ("enorm", "hnorm", "eh_proj")
    """Published names of the embedding's norm, the hidden state's norm, and the projection."""

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        embedding_norm, hidden_norm, projection = self.fusion
        self[embedding_norm] = nn.RMSNorm(hidden_size, eps=eps)
        self[hidden_norm] = nn.RMSNorm(hidden_size, eps=eps)
        self[projection] = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    @property
    def cast_predicate(self) -> Callable[[str], bool]:
        """Whether a weight may be cast: biases that only order experts would round to another order."""
        return lambda name: BIAS not in name

    def fuse(self, embedding: mx.array, hidden: mx.array, *, hidden_first: bool) -> mx.array:
        """What the blocks read, shape (1, rows, hidden size)."""
        embedding_norm, hidden_norm, projection = (self[name] for name in self.fusion)
        halves = [embedding_norm(embedding), hidden_norm(hidden)]
        fused: mx.array = projection(mx.concatenate(halves[::-1] if hidden_first else halves, axis=-1))[None]
        return fused

    def new_cache(self, bucket: int | None = None) -> Any:
        """An empty cache of a stage that rolls back exactly by length. `bucket`: see `RollbackCache`."""
        raise NotImplementedError

    def run_blocks(self, x: mx.array, cache: Any, stage: int) -> mx.array:
        """A stage's blocks over consecutive positions, shapes (1, rows, hidden size)."""
        raise NotImplementedError

    def norm_output(self, y: mx.array) -> mx.array:
        """The norm behind the blocks."""
        raise NotImplementedError


@dataclass(frozen=True)
class Stage:
    """One stage, complete.

    Attributes:
        module: Its weights; other stages may share them.
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
        cls, stages: Sequence[Stage], parts: TargetParts, tensors: HeadTensors, *, max_proposals: int
    ) -> StagedHeads:
        """Heads with the wiring that their checkpoint states, or with their family's until a probe settles it."""
        stated = tensors.stated_wiring
        traits = HeadTraits(len(stages), max_proposals, iterable=True, settled=stated is not None)
        return cls(tuple(stages), parts.norm, traits, stated or tensors.default_wiring)

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The weights of every stage, each once."""
        found = [module for stage in self.stages for module in (stage.module, *stage.own)]
        return tuple({id(module): module for module in found}.values())

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
        x = module.fuse(self.stages[stage].embed(tokens), hidden, hidden_first=self.wiring.hidden_first)
        y = module.run_blocks(x, cache, stage)[0]
        return module.norm_output(y) if self.wiring.chain_after_norm else y

    def logits(self, stage: int, outputs: mx.array) -> mx.array:
        """Logits of outputs of a stage, shape (rows, vocabulary)."""
        normed = outputs if self.wiring.chain_after_norm else self.stages[stage].module.norm_output(outputs)
        return self.stages[stage].project(normed)

    def variants(self) -> Mapping[str, StagedHeads]:
        """Every wiring, its own first."""
        others = [Wiring(*flags) for flags in product((False, True), repeat=3)]
        return {str(wiring): replace(self, wiring=wiring) for wiring in dict.fromkeys([self.wiring, *others])}

    def misreadings(self) -> Mapping[str, StagedHeads]:
        """The same heads with norms one lower and one higher: what they were if offsets from one were misread."""
        if self.offset_norms is None:
            return {}
        offsets = {"norms shifted once less": -1.0, "norms shifted once more": 1.0}
        return {name: replace(self, stages=self.offset_norms(offset)) for name, offset in offsets.items()}

    def capped(self, max_proposals: int) -> StagedHeads:
        """The same heads with another cap."""
        return replace(self, traits=replace(self.traits, max_proposals=max_proposals))
