"""Tensors that mlx-lm's class drops although its decoder is another model without them: loaded all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn

from eredu.contract.errors import CheckpointError


def restore_dropped(
    model: nn.Module,
    arrays: Mapping[str, mx.array],
    places: Mapping[str, str],
    class_of: Callable[[nn.Module], str],
    where: Path,
) -> dict[str, mx.array]:
    """Give a model the parameters that its class lacks, and return their values by the model's names.

    Args:
        model: mlx-lm's, without weights.
        arrays: The published tensors, as named by the model.
        places: Ending of a tensor's name behind the module that holds it, by that module's class (`Family.dropped`).
        class_of: The class of a module as `places` names it.
        where: Directory that an error names.

    Raises `CheckpointError` where a tensor is not there: a converter may have dropped it for good.
    """
    found: dict[str, mx.array] = {}
    for path, module in sorted(model.named_modules(), key=lambda named: named[0]):
        ending = places.get(class_of(module))
        if ending is None:
            continue
        name = f"{path}.{ending}"
        if name not in arrays:
            raise CheckpointError(
                f"{where} lacks {name}, without which it is another model; mlx-lm's converter drops it. Convert the "
                "published checkpoint with `eredu convert`, which keeps it"
            )
        *holders, parameter = ending.split(".")
        holder = module
        for part in holders:
            holder = holder.setdefault(part, nn.Module())
        holder[parameter] = found[name] = arrays[name]
    return found
