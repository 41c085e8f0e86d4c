"""The tensors of a checkpoint's heads, read apart from the target's, under the names their makers published.

mlx-lm drops these tensors or stumbles over them, so it never sees them: they are chosen by the claim of the config
(`eredu.checkpoints.heads`), whatever file they lie in, original or converted, whole or packed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import mlx.core as mx

from eredu.checkpoints.config import ModelConfig, read_config
from eredu.checkpoints.heads import head_names, weight_pattern
from eredu.checkpoints.layout import Layout, head_layouts
from eredu.checkpoints.safetensors_header import read_directory_headers
from eredu.contract.errors import CheckpointError

FLOATING = frozenset({mx.float32, mx.float16, mx.bfloat16})


@dataclass(frozen=True)
class HeadTensors:
    """Tensors of the heads of one directory.

    Attributes:
        directory: Where they lie.
        config: Its config.json.
        arrays: Lazy tensors by published name, without wrappers' prefixes: `mtp.fc.weight`, `layers.61.eh_proj.weight`.
        layouts: Who wrote each of them.
    """

    directory: Path
    config: ModelConfig
    arrays: Mapping[str, mx.array]
    layouts: Mapping[str, Layout]

    def renamed(self, rename: Callable[[str], str]) -> HeadTensors:
        """The same tensors under other names."""
        arrays = {rename(name): array for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, layouts={rename(name): found for name, found in self.layouts.items()})

    def shifted(self) -> HeadTensors:
        """The tensors of a family with zero-centred norms, ready to multiply with: one is added, once.

        Vectors called a norm are shifted where a published file holds them; converters have shifted theirs. The sum is
        taken in the type they have, as converters take it, so both layouts give the same bits. Shifting again changes
        nothing.
        """
        wanted = {
            name
            for name, array in self.arrays.items()
            if self.layouts[name] is Layout.PUBLISHED and array.ndim == 1 and "norm" in name and array.dtype in FLOATING
        }
        arrays = {name: array + 1.0 if name in wanted else array for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, layouts=dict.fromkeys(arrays, Layout.CONVERTED))


def read_head_tensors(directory: Path) -> HeadTensors:
    """Read the head tensors of a checkpoint's directory, or of a directory that holds heads alone.

    Raises `CheckpointError` for damaged files, an index that leads astray, files whose facts contradict each other,
    and a directory without any head tensor.
    """
    config = read_config(directory)
    stored = read_directory_headers(directory, weight_pattern(config))
    names = head_names(config, (tensor.name for tensor in stored))
    if not names:
        raise CheckpointError(f"{directory} holds no tensor of a prediction head for {config.model_type}")
    files = head_layouts(directory, stored, names)
    loaded = {file: _load(directory / file) for file in files}
    heads = [tensor for tensor in stored if tensor.name in names]
    arrays = {names[tensor.name]: loaded[tensor.file][tensor.name] for tensor in heads}
    return HeadTensors(directory, config, arrays, {names[tensor.name]: files[tensor.file] for tensor in heads})


def _load(path: Path) -> Mapping[str, mx.array]:
    try:
        return cast("dict[str, mx.array]", mx.load(str(path), format="safetensors"))
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"MLX cannot read {path}: {error}") from error
