"""Directories that must be refused, or reported as what they are: heads that are not there, files that lie."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import numpy as np

from eredu.files.json_reading import read_json_object
from eredu_conformance.zoo.drawing import Tensors
from eredu_conformance.zoo.member import ZooMember
from eredu_conformance.zoo.writing import INDEX, Parts, write_directory, write_json


class Damage(StrEnum):
    """What is wrong with a directory."""

    HEAD_ABSENT = "head-absent"
    """The config claims heads, and no tensor of one is there."""
    HEAD_HALF_ABSENT = "head-half-absent"
    """Every other tensor of the head is missing."""
    HEAD_ZERO = "head-zero"
    """Every tensor of the head is zero."""
    HEAD_CONSTANT = "head-constant"
    """Every matrix of the head holds one value throughout, as an initialiser leaves it."""
    HEAD_NAN = "head-nan"
    """One matrix of the head holds a NaN."""
    HEAD_WRONG_SHAPE = "head-wrong-shape"
    """One matrix of the head is cut to half its rows."""
    TRUNCATED = "truncated"
    """The weight file ends early."""
    INDEX_MISSING_FILE = "index-missing-file"
    """The index names a file that is not there."""
    INDEX_OUTSIDE_FILE = "index-outside-file"
    """The index names a file outside of the directory, which exists."""


def write_damaged(member: ZooMember, directory: Path, damage: Damage) -> Path:
    """Write a member with one thing wrong; return `directory`.

    Raises `ValueError` where a head is to be damaged and the family has none.
    """
    if damage in _HEADS:
        if not member.head:
            raise ValueError(f"{member.name} has no head that could be damaged")
        return write_directory(directory, dict(member.config), {**member.body, **_HEADS[damage](member.head)})
    if damage is Damage.TRUNCATED:
        file = member.write(directory) / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1000])
        return directory
    member.write(directory, parts=Parts.SHARDED)
    index = directory / INDEX
    content = read_json_object(index)
    last = max(content["weight_map"].values())
    if damage is Damage.INDEX_MISSING_FILE:
        (directory / last).unlink()
    else:
        outside = directory.parent / f"{directory.name}-outside.safetensors"
        (directory / last).rename(outside)
        places = content["weight_map"]
        content["weight_map"] = {n: f"../{outside.name}" if f == last else f for n, f in places.items()}
        write_json(index, content)
    return directory


def _constant(head: Tensors) -> Tensors:
    return {name: np.full_like(array, 0.02) if array.ndim > 1 else array for name, array in head.items()}


def _nan(head: Tensors) -> Tensors:
    name = _first_matrix(head)
    broken = head[name].copy()
    broken[0, 0] = np.nan
    return {**head, name: broken}


def _cut(head: Tensors) -> Tensors:
    name = _first_matrix(head)
    return {**head, name: head[name][: head[name].shape[0] // 2]}


FUSING = ("fc.weight", "eh_proj.weight", "input_proj.weight", "linear_proj.0.weight")


def _first_matrix(head: Tensors) -> str:
    """The projection that fuses embedding and hidden state."""
    return next(name for name in head if name.endswith(FUSING))


_HEADS: dict[Damage, Callable[[Tensors], Tensors]] = {
    Damage.HEAD_ABSENT: lambda _: {},
    Damage.HEAD_HALF_ABSENT: lambda head: {name: head[name] for name in sorted(head)[::2]},
    Damage.HEAD_ZERO: lambda head: {name: np.zeros_like(array) for name, array in head.items()},
    Damage.HEAD_CONSTANT: _constant,
    Damage.HEAD_NAN: _nan,
    Damage.HEAD_WRONG_SHAPE: _cut,
}
