"""Heads that fuse an embedding and a hidden state into one decoder layer: the wiring of Qwen and of its relatives.

x = fc([norm_e(embedding of the next token); norm_h(hidden state)]), one decoder layer of the target's own kind, a final
norm, then the target's output projection. Published sources disagree on details of the wiring, so the details are a
value: the right one is the one under which a trained head agrees with its target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.head import HeadTraits
from eredu.families.target_parts import TargetParts
from eredu.mlx.cache import RollbackCache
from eredu.mlx.taps import Recording, tap

FINAL_NORM = "final_norm"
"""Name of the tap on the target's final norm."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a fused head is wired.

    Attributes:
        hidden_after_norm: Whether the head reads the target's hidden state behind its final norm (else before it).
        hidden_first: Whether the hidden state is the first half of the fused vector (else the embedding is).
        chain_after_norm: Whether an iterated head reads its own output behind its norm (else before it).
    """

    hidden_after_norm: bool = False
    hidden_first: bool = False
    chain_after_norm: bool = False

    def __str__(self) -> str:
        sides = ("before norm", "after norm")
        first = "hidden first" if self.hidden_first else "embedding first"
        return f"hidden {sides[self.hidden_after_norm]}, {first}, chain {sides[self.chain_after_norm]}"


class FusedModule(nn.Module):
    """The weights of fused heads, under their published names behind `mtp.`: a layer each, the rest shared."""

    def __init__(self, layers: list[nn.Module], hidden_size: int, eps: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fc = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.pre_fc_norm_embedding = nn.RMSNorm(hidden_size, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(hidden_size, eps=eps)
        self.layers = layers
        self.norm = nn.RMSNorm(hidden_size, eps=eps)


class FusedHeads:
    """The fused heads of a loaded target; the last is iterated for more proposals than there are layers.

    Args:
        module: The heads with their weights.
        target: The target's parts; its final norm is tapped.
        max_proposals: Validated proposals a round.
        wiring: See `Wiring`.
    """

    def __init__(self, module: FusedModule, target: TargetParts, *, max_proposals: int, wiring: Wiring) -> None:
        self._module = module
        self._target = target
        self._wiring = wiring
        self._traits = HeadTraits(stages=len(module.layers), max_proposals=max_proposals, iterable=True)
        tap(target.norm, FINAL_NORM)

    @property
    def traits(self) -> HeadTraits:
        """One stage a layer, the last iterated."""
        return self._traits

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states on the side of its final norm that the wiring names."""
        rows = record.outputs if self._wiring.hidden_after_norm else record.inputs
        return rows[FINAL_NORM][0]

    def new_caches(self, bucket: int | None = None) -> list[Any]:
        """One key-value cache a stage."""
        return [RollbackCache(bucket) for _ in self._module.layers]

    def step(self, stage: int, hidden: mx.array, tokens: mx.array, cache: Any) -> mx.array:
        """Outputs of the head behind its layer, shape (rows, hidden size), as the chain reads them."""
        module = self._module
        embedding = module.pre_fc_norm_embedding(self._target.embed(tokens))
        normed = module.pre_fc_norm_hidden(hidden)
        halves = [normed, embedding] if self._wiring.hidden_first else [embedding, normed]
        x = module.fc(mx.concatenate(halves, axis=-1))[None]
        mask = cache.make_mask(x.shape[1])
        y = module.layers[stage](x, mask, cache)[0]
        return cast(mx.array, module.norm(y) if self._wiring.chain_after_norm else y)

    def logits(self, stage: int, outputs: mx.array) -> mx.array:  # noqa: ARG002
        """Logits of outputs, shape (rows, vocabulary)."""
        normed = outputs if self._wiring.chain_after_norm else self._module.norm(outputs)
        return self._target.project(normed)

    def variants(self) -> Mapping[str, FusedHeads]:
        """Every wiring, its own first."""
        others = [Wiring(*flags) for flags in product((False, True), repeat=3)]
        return {str(wiring): self._rebuilt(wiring=wiring) for wiring in dict.fromkeys([self._wiring, *others])}

    def capped(self, max_proposals: int) -> FusedHeads:
        """The same heads with another cap."""
        return self._rebuilt(max_proposals=max_proposals)

    def _rebuilt(self, *, wiring: Wiring | None = None, max_proposals: int | None = None) -> FusedHeads:
        cap = self._traits.max_proposals if max_proposals is None else max_proposals
        return FusedHeads(self._module, self._target, max_proposals=cap, wiring=wiring or self._wiring)
