"""The tensors of a checkpoint's heads, read apart from the target's, under the names their makers published.

mlx-lm drops these tensors or stumbles over them, so it never sees them: they are chosen by the claim of the config,
whatever file they lie in, original or converted, whole or packed. The blocks of staged heads are decoder layers under
other numbers, so they pass through the very conversion that mlx-lm gives the target's layers, renumbered from 0:
packed weights, experts stacked, key-value projections split. Weights in eight bits are decoded before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import mlx.core as mx
import mlx.nn as nn

from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.layout import Layout
from eredu.contract.errors import CheckpointError
from eredu.families.target_parts import TargetParts
from eredu.mlx.adapter import plain_floats

FLOATING = frozenset({mx.float32, mx.float16, mx.bfloat16})


@dataclass(frozen=True)
class HeadTensors:
    """Tensors of the heads of one directory.

    Attributes:
        opened: The directory.
        arrays: Lazy tensors by published name, without wrappers' prefixes: `mtp.fc.weight`, `layers.61.eh_proj.weight`.
        layouts: Who wrote each of them.
    """

    opened: OpenedDirectory
    arrays: Mapping[str, mx.array]
    layouts: Mapping[str, Layout]

    @property
    def directory(self) -> Path:
        """Where they lie."""
        return self.opened.path

    @property
    def config(self) -> ModelConfig:
        """config.json beside them."""
        return self.opened.config

    @property
    def count(self) -> int:
        """Heads that are claimed, or that the family publishes."""
        claim = self.opened.head_claim
        return 0 if claim is None else claim.count

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


def read_head_tensors(opened: OpenedDirectory, *, dtype: str | None = None) -> HeadTensors:
    """Read the head tensors of a checkpoint's directory, or of a directory that holds heads alone.

    Weights in eight bits are read in `dtype`, else in the config's type.

    Raises `CapabilityError` for weights that eredu does not read, `CheckpointError` for damaged files, an index that
    leads astray, files whose facts contradict each other, and a directory without any head tensor.
    """
    opened.require_assumed()
    _ = opened.heads  # a part of a head, or another width, is refused here as inspection refuses it
    directory, stored, names = opened.path, opened.tensors, opened.head_names
    if not names:
        raise CheckpointError(f"{directory} holds no tensor of a prediction head for {opened.architecture}")
    files = opened.head_layouts
    loaded = {file: _load(directory / file) for file in files}
    own = {tensor.name: loaded[tensor.file][tensor.name] for tensor in stored if tensor.name in names}
    arrays = {names[name]: array for name, array in plain_floats(opened, own, dtype).items()}
    layouts = {names[tensor.name]: files[tensor.file] for tensor in stored if tensor.name in own}
    return HeadTensors(opened, arrays, {name: layouts[name] for name in arrays})


def _load(path: Path) -> Mapping[str, mx.array]:
    try:
        return cast("dict[str, mx.array]", mx.load(str(path), format="safetensors"))
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"MLX cannot read {path}: {error}") from error


def convert_blocks(
    tensors: HeadTensors, parts: TargetParts, prefixes: Sequence[str], *, layers: str
) -> list[dict[str, mx.array]]:
    """Tensors of consecutive blocks, by name within the block.

    Args:
        tensors: Tensors of all heads.
        parts: The target's.
        prefixes: Published prefix of each block, such as `layers.61.`.
        layers: Prefix of the target's layers, in front of their numbers, as mlx-lm's conversion expects it.

    Raises `CheckpointError` where the conversion misses a tensor.
    """
    renumbered = {
        f"{layers}{number}.{name.removeprefix(prefix)}": array
        for number, prefix in enumerate(prefixes)
        for name, array in tensors.arrays.items()
        if name.startswith(prefix)
    }
    try:
        converted = parts.sanitize(renumbered)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:  # mlx-lm takes for granted that all are there
        raise CheckpointError(
            f"the tensors of the prediction head in {tensors.directory} do not fit each other or are not all there "
            f"({error}, with {prefixes[0]} counted from {layers}0); fetch it again, or decode plainly (--no-mtp)"
        ) from error
    blocks: list[dict[str, mx.array]] = [{} for _ in prefixes]
    for name, array in converted.items():
        number, _, inner = name.removeprefix(layers).partition(".")
        blocks[int(number)][inner] = array
    return blocks


def take_module(arrays: dict[str, mx.array], prefix: str) -> dict[str, mx.array]:
    """Take the tensors of one module out of a block's, by parameter name."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def is_copy(own: Mapping[str, mx.array], shared: object) -> bool:
    """Whether a module's tensors are those of the target's module, in whatever floating type that was cast to."""
    theirs = dict(shared.items()) if isinstance(shared, nn.Module) else {}
    return own.keys() == {name for name, value in theirs.items() if isinstance(value, mx.array)} and all(
        array.shape == theirs[name].shape and mx.array_equal(array.astype(theirs[name].dtype), theirs[name]).item()
        for name, array in own.items()
    )
