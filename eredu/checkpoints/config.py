"""config.json of a Hugging Face directory, asked with errors that name the file and the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eredu.contract.errors import CheckpointError

MAX_COUNT = 2**40
MAX_LAYERS = 10_000
"""Past any model there is: a larger number is a damaged or hostile file, and is not turned into a list of layers."""
HEADS_ALONE = "_mtp"
"""Ending of the `model_type` of a directory that holds heads alone, behind the family's name."""


@dataclass(frozen=True)
class ModelConfig:
    """The values of one config.json. Wrappers of several modalities nest the decoder's under `text_config`.

    Attributes:
        path: The file.
        values: The top level.
        decoder: The decoder's own level; the same object where nothing is nested.
    """

    path: Path
    values: Mapping[str, Any]
    decoder: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        """`model_type` of the top level. Raises `CheckpointError` where it is missing."""
        value = self.values.get("model_type")
        if not isinstance(value, str):
            raise CheckpointError(f"{self.path} has no model_type; expected the name of the model's family")
        return value

    @property
    def holds_heads_alone(self) -> bool:
        """Whether the directory holds heads alone, to be put beside a target."""
        return self.model_type.endswith(HEADS_ALONE)

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the decoder's level, else of the top level."""
        for level in (self.decoder, self.values):
            if level.get(key) is not None:
                return level[key]
        return default

    def count(self, key: str, default: int | None = None, *, most: int = MAX_COUNT) -> int:
        """A whole number from 0 to `most`. Raises `CheckpointError` for anything else, or where it is missing."""
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise CheckpointError(f"{self.path} gives {key} as {value!r}; expected a whole number from 0 to {most}")
        return value

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return self.count("num_hidden_layers", most=MAX_LAYERS)

    def strings(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, None where it is missing. Raises `CheckpointError` for anything else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise CheckpointError(f"{self.path} gives {key} as {value!r}; expected a list of strings")
        return tuple(value)


def read_json(path: Path) -> Any:
    """What a file of JSON holds. Raises `CheckpointError` where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} could not be read as JSON ({error}); fetch it again") from error


def read_config(directory: Path) -> ModelConfig:
    """Read config.json. Raises `CheckpointError` where it is missing or no JSON object."""
    path = directory / "config.json"
    if not path.is_file():
        raise CheckpointError(
            f"{directory} has no config.json; expected a Hugging Face directory (config.json, tokenizer.json, "
            "model*.safetensors), or give the path of a GGUF file"
        )
    values = read_json(path)
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds a JSON {type(values).__name__}; expected an object")
    nested = values.get("text_config")
    return ModelConfig(path, values, nested if isinstance(nested, dict) else values)
