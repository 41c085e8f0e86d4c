"""Heads that fuse an embedding and a hidden state into one decoder layer: the wiring of Qwen and of its relatives.

x = fc([norm_e(embedding of the next token); norm_h(hidden state)]), one decoder layer of the target's own kind, a final
norm, then the target's output projection.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.wiring import Wiring
from eredu.families.filling import parameters_of
from eredu.families.head_tensors import HeadTensors
from eredu.families.prediction_heads import HeadTraits
from eredu.families.target_parts import TargetParts
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.taps import Recording, tap

PREFIX = "mtp."
"""In front of the published names of fused heads."""
FINAL_NORM = "final_norm"
"""Name of the tap on the target's final norm."""


class FusedModule(nn.Module):
    """The weights of fused heads, under their published names behind `mtp.`: a layer each, the rest shared."""

    def __init__(self, layers: list[nn.Module], hidden_size: int, eps: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fc = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.pre_fc_norm_embedding = nn.RMSNorm(hidden_size, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(hidden_size, eps=eps)
        self.layers = layers
        self.norm = nn.RMSNorm(hidden_size, eps=eps)


@dataclass(frozen=True)
class FusedHeads:
    """The fused heads of a loaded target; the last is iterated for more proposals than there are layers.

    Attributes:
        module: The heads with their weights.
        target: The target's parts; its final norm is tapped.
        traits: One stage a layer, the last iterated.
        wiring: See `Wiring`.
        shifted_norms: Whether norms are zero-centred in published files, so that they may have been misread.
    """

    module: FusedModule
    target: TargetParts
    traits: HeadTraits
    wiring: Wiring
    shifted_norms: bool = False

    def __post_init__(self) -> None:
        tap(self.target.norm, FINAL_NORM)

    @classmethod
    def of(cls, module: FusedModule, target: TargetParts, tensors: HeadTensors, *, max_proposals: int) -> FusedHeads:
        """Heads with the wiring that their checkpoint states, or with their family's until a probe settles it."""
        stated = tensors.stated_wiring
        traits = HeadTraits(len(module.layers), max_proposals, iterable=True, settled=stated is not None)
        return cls(module, target, traits, stated or tensors.default_wiring)

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The weights."""
        return (self.module,)

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states on the side of its final norm that the wiring names."""
        rows = record.outputs if self.wiring.hidden_after_norm else record.inputs
        return rows[FINAL_NORM][0]

    def new_caches(self, bucket: int | None = None) -> list[Any]:
        """One key-value cache a stage."""
        return [RollbackCache(bucket) for _ in self.module.layers]

    def step(self, stage: int, hidden: mx.array, tokens: mx.array, cache: Any) -> mx.array:
        """Outputs of the head behind its layer, shape (rows, hidden size), as the chain reads them."""
        module = self.module
        embedding = module.pre_fc_norm_embedding(self.target.embed(tokens))
        normed = module.pre_fc_norm_hidden(hidden)
        halves = [normed, embedding] if self.wiring.hidden_first else [embedding, normed]
        x = module.fc(mx.concatenate(halves, axis=-1))[None]
        mask = cache.make_mask(x.shape[1])
        y = module.layers[stage](x, mask, cache)[0]
        return cast(mx.array, module.norm(y) if self.wiring.chain_after_norm else y)

    def logits(self, stage: int, outputs: mx.array) -> mx.array:  # noqa: ARG002
        """Logits of outputs, shape (rows, vocabulary)."""
        return self.target.project(outputs if self.wiring.chain_after_norm else self.module.norm(outputs))

    def variants(self) -> Mapping[str, FusedHeads]:
        """Every wiring, its own first."""
        others = [Wiring(*flags) for flags in product((False, True), repeat=3)]
        return {str(wiring): replace(self, wiring=wiring) for wiring in dict.fromkeys([self.wiring, *others])}

    def misreadings(self) -> Mapping[str, FusedHeads]:
        """The same heads with zero-centred norms one lower and one higher: what they were if files were misread."""
        if not self.shifted_norms:
            return {}
        offsets = {"norms shifted once less": -1.0, "norms shifted once more": 1.0}
        return {name: replace(self, module=_with_norms(self.module, offset)) for name, offset in offsets.items()}

    def capped(self, max_proposals: int) -> FusedHeads:
        """The same heads with another cap."""
        return replace(self, traits=replace(self.traits, max_proposals=max_proposals))


def _with_norms(module: FusedModule, offset: float) -> FusedModule:
    """A copy that shares all weights but those of its norms, which are `offset` higher."""
    copied = copy.deepcopy(module)
    weights = parameters_of(module)
    norms = [(name, array + offset) for name, array in weights.items() if "norm" in name and array.ndim == 1]
    copied.load_weights([*(weights | dict(norms)).items()])
    return copied
