"""Hugging Face directories on disk: one SafeTensors file, or several with their index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from eredu_conformance.crafted.tokenizer import tokenizer_config, tokenizer_json
from eredu_conformance.zoo.storing import Stored, save_stored

INDEX = "model.safetensors.index.json"
"""Name of the index beside several weight files."""


class Parts(StrEnum):
    """How many weight files a directory has."""

    ONE = "one"
    """`model.safetensors`."""
    SHARDED = "sharded"
    """Three files and an index; heads are spread as their names fall, as in published checkpoints."""
    HEAD_APART = "head-apart"
    """Files and an index: the last file holds the heads, and nothing else."""


def write_directory(
    directory: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Any],
    *,
    parts: Parts = Parts.ONE,
    layout: str = "pt",
    head_names: frozenset[str] = frozenset(),
) -> Path:
    """Write config, weights and tokenizer.

    Args:
        directory: Made if it is not there.
        config: The content of config.json.
        tensors: Arrays by name, or what `storing` made of them.
        parts: How many weight files.
        layout: The `format` in the files' metadata: `pt` of a publisher, `mlx` of a converter.
        head_names: Tensors that `Parts.HEAD_APART` sets apart.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", config)
    text = config.get("text_config", config)
    if "vocab_size" in text:
        write_json(directory / "tokenizer.json", tokenizer_json(text["vocab_size"], None))
        write_json(
            directory / "tokenizer_config.json", tokenizer_config(text.get("max_position_embeddings", 512), None)
        )
    files = _split(tensors, parts, head_names)
    for name, held in files.items():
        _save(held, directory / name, layout)
    if parts is not Parts.ONE:
        write_index(directory, {key: name for name, held in files.items() for key in held}, tensors)
    return directory


def _save(held: Mapping[str, Any], path: Path, layout: str) -> None:
    if any(isinstance(array, Stored) for array in held.values()):
        save_stored(held, path, layout)
    else:
        arrays = {key: np.ascontiguousarray(array) for key, array in held.items()}
        save_file(arrays, path, metadata={"format": layout})


def write_index(directory: Path, places: Mapping[str, str], tensors: Mapping[str, Any]) -> None:
    """Write the index: which file holds which tensor."""
    total = sum(array.nbytes for array in tensors.values())
    write_json(directory / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in the one form that every directory of the zoo has."""
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _split(tensors: Mapping[str, Any], parts: Parts, head_names: frozenset[str]) -> dict[str, dict[str, Any]]:
    if parts is Parts.ONE:
        return {"model.safetensors": dict(tensors)}
    groups: list[dict[str, Any]]
    if parts is Parts.HEAD_APART:
        body = {name: array for name, array in tensors.items() if name not in head_names}
        head = {name: array for name, array in tensors.items() if name in head_names}
        groups = [body, head] if head else [body]
    else:
        names = sorted(tensors)
        groups = [{name: tensors[name] for name in names[start::3]} for start in range(3)]
    count = len(groups)
    return {f"model-{index + 1:05}-of-{count:05}.safetensors": held for index, held in enumerate(groups)}
