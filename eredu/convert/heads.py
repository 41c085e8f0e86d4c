"""Heads in MLX's layout, in a file of their own that mlx-lm never opens: `mtp.safetensors` beside the trunk.

mlx-lm reads `model*.safetensors` and stumbles over heads among them: Qwen's make older releases shift norms a second
time, and other families' are unknown tensors to it. The names are those that the family's loader reads back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from eredu.contract.errors import OptionError
from eredu.convert.options import ConvertOptions
from eredu.families.filling import parameters_of
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.stages import StageModule

HEAD_FILE = "mtp.safetensors"
ROUTERS = (".gate", "_gate")
"""Endings of what picks experts: it stays in floats, as the fusion does; both are small, and decide much."""


def quantise_heads(heads: PredictionHeads, options: ConvertOptions) -> None:
    """Quantise heads in place, if that is wanted. Layers whose inputs the group size does not divide stay as they are.

    Raises `OptionError` where no layer is left, or the heads are quantised already.
    """
    bits = options.head_bits
    if bits is None:
        return
    packed = packed_layers(heads)
    if packed:
        name, settings = next(iter(packed.items()))
        raise OptionError(
            f"--head-bits {bits} was given, and the heads are quantised already ({name}: {settings['bits']} bits); "
            "leave it out to keep them as they are"
        )
    for module in heads.modules:
        fusion = module.fusion if isinstance(module, StageModule) else ()

        def chosen(path: str, layer: nn.Module, fusion: tuple[str, ...] = fusion) -> bool:
            if not hasattr(layer, "to_quantized") or path in fusion or path.endswith(ROUTERS):
                return False
            return bool(layer.weight.shape[-1] % options.group_size == 0)

        nn.quantize(module, options.group_size, bits, class_predicate=chosen)
    if not packed_layers(heads):
        raise OptionError(f"no layer of the heads has inputs that a group size of {options.group_size} divides")


def packed_layers(heads: PredictionHeads) -> dict[str, dict[str, Any]]:
    """MLX's settings of every packed layer, by stored name."""
    found: dict[str, dict[str, Any]] = {}
    for module in heads.modules:
        for path, layer in cast(Any, module).named_modules():
            if "scales" in layer:
                keys = ("group_size", "bits", "mode")
                found[module.stored_name(path)] = {key: getattr(layer, key) for key in keys}
    return found


def write_heads(heads: PredictionHeads, folder: Path) -> None:
    """Write the head file."""
    arrays = {
        module.stored_name(name): array for module in heads.modules for name, array in parameters_of(module).items()
    }
    mx.save_safetensors(str(folder / HEAD_FILE), arrays, metadata={"format": "mlx"})
