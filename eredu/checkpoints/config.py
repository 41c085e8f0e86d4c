"""config.json of a Hugging Face directory, asked with errors that name the file and the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from eredu.contract.errors import CheckpointError
from eredu.files import json_reading

MAX_COUNT = 2**40
MOST_SHOWN = 80
"""Characters of a wrong value that a message shows."""
MAX_LAYERS = 10_000
"""Past any model there is: a larger number is a damaged or hostile file, and is not turned into a list of layers."""
NESTED, ROTARY = "text_config", "rope_parameters"
QUANTIZATION = "quantization_config"
OWN_KEYS = frozenset({"model_type", "architectures", "dtype", "torch_dtype", "transformers_version", NESTED})
"""Keys that say something else on each level."""
COUNTS = (
    "num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok", "n_routed_experts",
    "shared_expert_intermediate_size", "max_position_embeddings", "linear_num_key_heads", "linear_num_value_heads",
    "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "mamba_num_heads", "mamba_head_dim",
    "n_group", "topk_group", "n_groups", "n_shared_experts", "first_k_dense_replace", "moe_layer_freq", "q_lora_rank",
    "full_attention_interval", "ssm_state_size", "conv_kernel", "kv_lora_rank", "qk_nope_head_dim",
    "qk_rope_head_dim", "v_head_dim",
)  # fmt: skip
"""Keys whose values are whole numbers in every family."""
POSITIVE = frozenset({"hidden_size", "vocab_size", "num_attention_heads", "head_dim"})
"""Those that are never 0."""
REALS = {
    "rms_norm_eps": (0, 1), "layer_norm_eps": (0, 1), "layer_norm_epsilon": (0, 1), "norm_eps": (0, 1),
    "rope_theta": (0, 1e12), "partial_rotary_factor": (0, 1), "routed_scaling_factor": (0, 1e6),
}  # fmt: skip
"""Keys whose values are real numbers, and their bounds."""
LISTED = "rope_theta"
"""The one of them that a family lists for each layer (Step 3.5)."""
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
        """`model_type` of the top level, else of the decoder's. Raises `CheckpointError` where it is missing."""
        value = self.values.get("model_type", self.decoder.get("model_type"))
        if not isinstance(value, str):
            raise CheckpointError(f"{self.path} has no model_type; expected the name of the model's family")
        return value

    @property
    def holds_heads_alone(self) -> bool:
        """Whether the directory holds heads alone, to be put beside a target."""
        return self.model_type.endswith(HEADS_ALONE)

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the decoder's level, else of the top level. The one reader of both: null is a missing value."""
        return next(iter(self.stated(key)), default)

    def stated(self, key: str) -> list[Any]:
        """What the levels say, the decoder's first; more than one of them may."""
        return [level[key] for level in (self.decoder, self.values) if level.get(key) is not None]

    def with_values(self, more: Mapping[str, Any]) -> ModelConfig:
        """The config with other values on the decoder's level."""
        decoder = {**self.decoder, **more}
        return replace(self, decoder=decoder, values=decoder if self.decoder is self.values else self.values)

    @cached_property
    def merged(self) -> dict[str, Any]:
        """Both levels with what `get` reads, for libraries that look at one of them.

        Names of what a level describes (`OWN_KEYS`) stay where they are.
        """
        if self.decoder is self.values:
            return dict(self.values)
        shared = {
            key: value
            for level in (self.values, self.decoder)
            for key, value in level.items()
            if value is not None and key not in OWN_KEYS and (not key.endswith("_config") or key == QUANTIZATION)
        }
        return {**self.values, **shared, NESTED: {**self.decoder, **shared}}

    def count(self, key: str, default: int | None = None, *, least: int = 0, most: int = MAX_COUNT) -> int:
        """A whole number from `least` to `most`. Raises `CheckpointError` for anything else, or where it is missing."""
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise CheckpointError(
                f"{self.path} gives {key} as {_shown(value)}; expected a whole number from {least} to {most}"
            )
        return value

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return self.count("num_hidden_layers", most=MAX_LAYERS)

    def require_numbers(self) -> None:
        """Raise `CheckpointError` for a size that is no whole number, or a real one out of its bounds.

        mlx-lm takes them as they are: a NaN is multiplied with, and a fraction of a layer fails far from its cause.
        """
        for key in COUNTS:
            if self.get(key) is not None:
                least, most = int(key in POSITIVE), MAX_LAYERS if key == "num_hidden_layers" else MAX_COUNT
                self.count(key, least=least, most=most)
        for key, (low, high) in REALS.items():
            for place, value in ((key, self.get(key)), (f"{ROTARY}.{key}", _inside(self.get(ROTARY), key))):
                each = value if isinstance(value, list) and place == LISTED else [value]
                if value is not None and not all(_is_real(one) and low <= one <= high for one in each):
                    raise CheckpointError(
                        f"{self.path} gives {place} as {str(value)[:80]!r}; expected a number from {low} to {high}"
                    )

    def strings(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, None where it is missing. Raises `CheckpointError` for anything else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise CheckpointError(f"{self.path} gives {key} as {value!r}; expected a list of strings")
        return tuple(value)


def _inside(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """A value as Python writes it, the start of a long one; a number of thousands of digits cannot even be written."""
    if isinstance(value, int) and abs(value) > 10**80:
        return "a number of more than 80 digits"
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} ..."


def read_json(path: Path) -> Any:
    """What a file of JSON holds. Raises `CheckpointError` where it cannot be read."""
    return json_reading.read_json(path, error=CheckpointError)


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
    nested = values.get(NESTED)
    return ModelConfig(path, values, nested if isinstance(nested, dict) else values)
