"""How many weights a checkpoint has, counted before quantisation packed them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.quantisation import Quantisation
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError


def parameter_count(
    config: ModelConfig, tensors: Sequence[StoredTensor], quantisation: Quantisation | None
) -> int | None:
    """Weights before packing: MLX packs a layer's into words of 32 bits, with a scale for every group of them.

    None where the config gives no settings at all for packed weights: heads are loaded by their layers' shapes. Raises
    `CheckpointError` for settings without the size of a group.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    settings = {} if quantisation is None else quantisation.by_mlx or {}
    count = 0
    for tensor in tensors:
        layer, _, part = tensor.name.rpartition(".")
        scales = by_name.get(f"{layer}.scales")
        if quantisation is not None and quantisation.is_aside(tensor.name):
            continue
        if scales is None or tensor.dtype != "U32" or part != "weight":
            count += 0 if part in {"scales", "biases"} and f"{layer}.weight" in by_name else tensor.element_count
            continue
        if not settings:
            return None
        count += math.prod(scales.shape) * _group_size(config, settings, layer)
    return count


def _group_size(config: ModelConfig, settings: Mapping[str, object], layer: str) -> int:
    own = settings.get(layer)
    size = (own if isinstance(own, Mapping) else settings).get("group_size")
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise CheckpointError(
            f"layer {layer!r} is packed in {config.path.parent}, and {config.path} gives its quantization group_size "
            f"as {size!r}; expected how many weights share a scale"
        )
    return size
