"""One stage of prediction heads, fused from an embedding and a hidden state.

x = fuse([norm(embedding of the next token); norm(hidden state)]), blocks of the target's own kind, a norm, an output
projection. Stage s + 1 reads what stage s gives. Stages have weights of their own (DeepSeek, Nemotron-H), or share all
but their blocks (Qwen).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.routing import BIAS
from eredu.mlx.caches.full import RollbackCache


class StoredModule(nn.Module):
    """Weights of heads that know what a converter calls them."""

    def stored_name(self, parameter: str) -> str:
        """Name under which a converted file holds a parameter or a layer, and from which its loader makes it again."""
        raise NotImplementedError


class StageModule(StoredModule):
    """The weights of one stage or of several; a family adds the blocks.

    Args:
        hidden_size: Width of the target's residual.
        eps: Of the norms.
        shared_norm: The norm behind the blocks, where it is the target's; None where the stage has one of its own.
    """

    fusion: ClassVar[tuple[str, str, str]] = ("enorm", "hnorm", "eh_proj")
    """Published names of the embedding's norm, the hidden state's norm, and the projection."""
    output_norm: ClassVar[str] = "norm"
    """Name of the norm behind the blocks."""

    def __init__(self, hidden_size: int, eps: float, shared_norm: nn.Module | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        *norms, projection = self.fusion
        self._shared_norm = shared_norm and (shared_norm,)  # in a tuple it is nobody's parameter
        for name in norms if shared_norm else (*norms, self.output_norm):
            self[name] = nn.RMSNorm(hidden_size, eps=eps)
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
        """An empty cache of a stage, rolled back exactly by length: keys and values. `bucket`: see `RollbackCache`."""
        return RollbackCache(bucket)

    def run_blocks(self, x: mx.array, cache: Any, stage: int) -> mx.array:
        """A stage's blocks over consecutive positions, shapes (1, rows, hidden size)."""
        raise NotImplementedError

    def norm_output(self, y: mx.array) -> mx.array:
        """What the output projection reads."""
        norm = self._shared_norm[0] if self._shared_norm else self[self.output_norm]
        return cast(mx.array, norm(y))


class LayerStage(StageModule):
    """A stage whose only block is one decoder layer.

    Args:
        layer: The layer, mostly of the target's class.
        hidden_size: Width of the target's residual.
        eps: Of the norms.
        shared_norm: See `StageModule`.
    """

    array_mask: ClassVar[bool] = False
    """Whether the layer wants its mask as an array (latent attention)."""

    def __init__(self, layer: nn.Module, hidden_size: int, eps: float, shared_norm: nn.Module | None = None) -> None:
        super().__init__(hidden_size, eps, shared_norm)
        self.layer = layer

    def run_blocks(self, x: mx.array, cache: Any, stage: int) -> mx.array:  # noqa: ARG002 (a module a stage)
        """The decoder layer."""
        return cast(mx.array, self.layer(x, cache.make_mask(x.shape[1], return_array=self.array_mask), cache))


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
    own: tuple[StoredModule, ...] = ()
