"""Where a release says how its weights are quantised: under keys of config.json on either level, or in files beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eredu.checkpoints.config import QUANTIZATION, ModelConfig, read_json
from eredu.contract.errors import CheckpointError

MLX_KEY = "quantization"
"""MLX's own."""
KEYS = {QUANTIZATION: "an unnamed method", "compression_config": "compressed-tensors"}
"""Keys under which other libraries describe what they did, and the method where they don't name it."""
FILES = {
    "hf_quant_config.json": "modelopt",
    "quantize_config.json": "gptq",
    "quant_config.json": "awq",
    "quanto_qmap.json": "quanto",
    "quantization_map.json": "quanto",
}
"""Files in which exporters keep the same, likewise."""
MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Statement:
    """A method that a file names.

    Attributes:
        place: The file.
        method: The method, in lower case.
        settings: All that is said.
    """

    place: str
    method: str
    settings: Mapping[str, Any]

    @property
    def words(self) -> str:
        """The method, with bits and algorithm where they are given."""
        inner = self.settings.get("quantization")
        inner = inner if isinstance(inner, Mapping) else {}
        bits = self.settings.get("bits", self.settings.get("w_bit"))
        algorithm = self.settings.get("quant_algo", inner.get("quant_algo"))
        more = [f"{bits} bits"] if isinstance(bits, int) else []
        more += [str(algorithm)[:MOST_SHOWN]] if algorithm is not None else []
        return ", ".join([self.method, *more])


def read_statements(config: ModelConfig) -> Iterator[Statement]:
    """What config.json and the files beside it say, in the order in which it counts.

    Raises `CheckpointError` for anything but objects.
    """
    for key, otherwise in KEYS.items():
        settings = settings_under(config, key)
        if settings is not None:
            yield Statement(str(config.path), _method(settings, otherwise), settings)
    for name, method in FILES.items():
        path = config.path.parent / name
        if path.is_file():
            settings = read_json(path)
            if not isinstance(settings, Mapping):
                raise CheckpointError(f"{path} holds a JSON {type(settings).__name__}; expected an object")
            yield Statement(str(path), _method(settings, method), settings)


def settings_under(config: ModelConfig, key: str) -> Mapping[str, Any] | None:
    """The object under a key, None where it is missing. Raises `CheckpointError` for anything else."""
    settings = config.get(key)
    if settings is not None and not isinstance(settings, Mapping):
        raise CheckpointError(f"{config.path} gives {key} as {str(settings)[:MOST_SHOWN]}; expected an object")
    return settings


def stated_block(config: ModelConfig, settings: Mapping[str, Any]) -> tuple[int, int] | None:
    """Rows and columns that share a scale: `weight_block_size`, or `block_structure` of a group of layers.

    None where nothing says. Raises `CheckpointError` for anything but two whole numbers.
    """
    groups = settings.get("config_groups")
    found = [settings.get("weight_block_size")]
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        found.append(weights.get("block_structure") if isinstance(weights, Mapping) else None)
    stated = next((each for each in found if each is not None), None)
    match stated:
        case None:
            return None
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return rows, columns
    raise CheckpointError(
        f"{config.path} gives the block of a scale as {str(stated)[:MOST_SHOWN]}; expected [rows, columns]"
    )


def _method(settings: Mapping[str, Any], otherwise: str) -> str:
    """The method in lower case, whichever key names it."""
    if "quant_method" in settings:
        return str(settings["quant_method"]).lower()[:MOST_SHOWN]
    if settings.get("load_in_4bit") or settings.get("load_in_8bit"):
        return "bitsandbytes"
    inner = settings.get("quantization")
    exported = "quant_algo" in settings or (isinstance(inner, Mapping) and "quant_algo" in inner)
    return "modelopt" if exported else otherwise
