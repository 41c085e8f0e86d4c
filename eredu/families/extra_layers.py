"""Heads that are one decoder layer more for each proposal, numbered on behind the target's layers.

Each stage has attention, feed-forward and a cache of its own, as the target's last layer has. The published extra layer
repeats the target's embedding and output projection; the copies are shared with the target if they are copies, and kept
if they are not. Source: DeepSeek-V3 technical report (arXiv 2412.19437), section 2.2, and the weight notes published
beside it.
"""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.families.filling import fill_module
from eredu.families.head_tensors import HeadTensors, convert_blocks, is_copy, take_module
from eredu.families.mlx_lm_patches import patch_layers
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import LayerStage, Stage, StoredModule
from eredu.families.target_parts import TargetParts
from eredu.mlx.caches.composite import RollbackList
from eredu.mlx.caches.full import RollbackCache

NORM = "shared_head.norm."
APART = "mtp."
"""In front of the names of heads that lie in a directory of their own."""


class ExtraLayer(LayerStage):
    """One extra layer.

    Args:
        layer: A decoder layer of the target's class.
        hidden_size: Width of the target's residual.
        eps: Of the norms.
        prefix: In front of its published names.
    """

    def __init__(self, layer: nn.Module, hidden_size: int, eps: float, prefix: str) -> None:
        super().__init__(layer, hidden_size, eps)
        self._prefix = prefix

    @property
    def is_sparse(self) -> bool:
        """Whether the layer picks its keys by an indexer, which keeps keys of its own (DeepSeek V3.2)."""
        return "indexer" in self.layer.self_attn

    def new_cache(self, bucket: int | None = None) -> Any:
        """Keys and values, or latent rows and rotary keys; and the indexer's keys where there is one."""
        return RollbackList(RollbackCache(), RollbackCache()) if self.is_sparse else super().new_cache(bucket)

    def stored_name(self, parameter: str) -> str:
        """As `_parameter` reads it, behind the layer's number."""
        inner = parameter.removeprefix("layer.")
        shared = parameter.partition(".")[0] == self.output_norm
        return f"{self._prefix}{NORM}{inner.removeprefix('norm.')}" if shared else f"{self._prefix}{inner}"

    def run_blocks(self, x: mx.array, cache: Any, stage: int) -> mx.array:  # noqa: ARG002 (a module a stage)
        """The decoder layer."""
        first = cache[0] if self.is_sparse else cache
        return cast(mx.array, self.layer(x, first.make_mask(x.shape[1], return_array=True), cache))


def load_extra_layers(tensors: HeadTensors, parts: TargetParts) -> PredictionHeads:
    """Build all stages of a checkpoint from its published or converted tensors.

    Raises `CheckpointError` naming tensors that are missing, left over, misshapen or dead.
    """
    depth = tensors.config.layers
    count = tensors.count
    layers = tensors.renamed(lambda name: name.removeprefix(APART))
    stages = [_load_stage(layers, parts, depth + number) for number in range(count)]
    return PredictionHeads.of(stages, parts, tensors)


def _load_stage(tensors: HeadTensors, parts: TargetParts, number: int) -> Stage:
    args = parts.args
    arrays = convert_blocks(tensors, parts, [f"layers.{number}."], layers="model.layers.")[0]
    embedding, head = take_module(arrays, "embed_tokens."), take_module(arrays, "shared_head.head.")
    prefix = f"model.layers.{number}."
    module = ExtraLayer(type(parts.layers[-1])(args, number), args.hidden_size, args.rms_norm_eps, prefix)
    fill_module(module, {_parameter(name): array for name, array in arrays.items()}, tensors.directory)
    patch_layers(module)
    embed_copy = KeptCopy(nn.Embedding(args.vocab_size, args.hidden_size), f"{prefix}embed_tokens.")
    project_copy = KeptCopy(nn.Linear(args.hidden_size, args.vocab_size, bias=False), f"{prefix}shared_head.head.")
    embed = _own(embedding, parts.embed, embed_copy, tensors)
    project = _own(head, parts.project, project_copy, tensors)
    own = tuple(found for found in (embed, project) if found is not None)
    return Stage(module, parts.embed if embed is None else embed, parts.project if project is None else project, own)


def _parameter(name: str) -> str:
    """Name in `ExtraLayer` of a tensor of the extra layer."""
    if name.startswith(ExtraLayer.fusion):
        return name
    return f"norm.{name.removeprefix(NORM)}" if name.startswith(NORM) else f"layer.{name}"


class KeptCopy(StoredModule):
    """An embedding or projection that a stage has for itself; packed or not, and cast as the stage is.

    Args:
        inner: It.
        prefix: In front of its published names.
    """

    def __init__(self, inner: nn.Module, prefix: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inner = inner
        self._prefix = prefix

    def stored_name(self, parameter: str) -> str:
        """The published prefix instead of its place here."""
        return f"{self._prefix}{parameter.removeprefix('inner').removeprefix('.')}".removesuffix(".")

    def __call__(self, x: mx.array) -> mx.array:
        """What the module makes of its input."""
        return cast(mx.array, self.inner(x))


def _own(arrays: dict[str, mx.array], shared: object, kept: KeptCopy, tensors: HeadTensors) -> KeptCopy | None:
    """The copy filled with a stage's own tensors; None where it has none, or only a copy of the target's."""
    if not arrays or is_copy(arrays, shared):
        return None
    fill_module(kept, {f"inner.{name}": array for name, array in arrays.items()}, tensors.directory)
    return kept
