"""Heads that fuse an embedding and a hidden state into one decoder layer: the wiring of Qwen and of its relatives.

x = fc([norm_e(embedding of the next token); norm_h(hidden state)]), one decoder layer of the target's own kind, a final
norm, then the target's output projection. Published sources disagree on details of the wiring, so the details are a
value: the right one is the one under which a trained head agrees with its target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.head import HeadTraits
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


class FusedModule(nn.Module):
    """The weights of one fused head, under their published names behind `mtp.`."""

    def __init__(self, layer: nn.Module, hidden_size: int, eps: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fc = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.pre_fc_norm_embedding = nn.RMSNorm(hidden_size, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(hidden_size, eps=eps)
        self.layers = [layer]
        self.norm = nn.RMSNorm(hidden_size, eps=eps)


class FusedHeads:
    """One fused head of a loaded target, iterated for more than one proposal.

    Args:
        module: The head with its weights.
        decoder: The target's module that holds `embed_tokens` and its final norm; the norm is tapped.
        project: The target's output projection, from (rows, hidden size) to (rows, vocabulary).
        max_proposals: Validated proposals a round.
        wiring: See `Wiring`.
        bucket: See `RollbackCache`.
    """

    def __init__(
        self,
        module: FusedModule,
        decoder: Any,
        project: Any,
        *,
        max_proposals: int,
        wiring: Wiring,
        bucket: int | None = None,
    ) -> None:
        self._module = module
        self._decoder = decoder
        self._project = project
        self._wiring = wiring
        self._bucket = bucket
        self._traits = HeadTraits(stages=1, max_proposals=max_proposals)
        tap(decoder.norm, FINAL_NORM)

    @property
    def traits(self) -> HeadTraits:
        """One stage, iterated."""
        return self._traits

    def hidden(self, record: Recording) -> mx.array:
        """The target's hidden states on the side of its final norm that the wiring names."""
        rows = record.outputs if self._wiring.hidden_after_norm else record.inputs
        return rows[FINAL_NORM][0]

    def new_caches(self) -> list[Any]:
        """One key-value cache."""
        return [RollbackCache(self._bucket)]

    def step(self, stage: int, hidden: mx.array, tokens: mx.array, cache: Any) -> mx.array:  # noqa: ARG002
        """Outputs of the head behind its layer, shape (rows, hidden size), as the chain reads them."""
        module = self._module
        embedding = module.pre_fc_norm_embedding(self._decoder.embed_tokens(tokens))
        normed = module.pre_fc_norm_hidden(hidden)
        halves = [normed, embedding] if self._wiring.hidden_first else [embedding, normed]
        x = module.fc(mx.concatenate(halves, axis=-1))[None]
        mask = cache.make_mask(x.shape[1])
        y = module.layers[0](x, mask, cache)[0]
        return cast(mx.array, module.norm(y) if self._wiring.chain_after_norm else y)

    def logits(self, stage: int, outputs: mx.array) -> mx.array:  # noqa: ARG002
        """Logits of outputs, shape (rows, vocabulary)."""
        normed = outputs if self._wiring.chain_after_norm else self._module.norm(outputs)
        return cast(mx.array, self._project(normed))
