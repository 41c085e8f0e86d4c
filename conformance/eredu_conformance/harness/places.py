"""Which key of a config.json and which file each command reads, family by family: found by watching the readers.

`python -m eredu_conformance.harness.places` writes the table into `eredu/checkpoints/PLACES.md`; a test holds the file
to what the readers do.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import eredu.checkpoints
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.directory import OpenedDirectory
from eredu.engine.load import load_target
from eredu_conformance.zoo import Parts, zoo_member

PLACES = Path(eredu.checkpoints.__file__).parent / "PLACES.md"
MEMBERS = ("llama", "qwen3.5", "qwen3-next", "nemotron-h", "deepseek-v3")
"""A member a family that differs in what is read of it."""
COMMANDS: Mapping[str, Callable[[Path], Any]] = {
    "i": lambda path: OpenedDirectory(path).report(),
    "g": lambda path: load_target(path, settle=False),
}
"""`inspect`; and `generate`, `validate` and `eredu.load`, which load by one function."""
HEAD = """# Places of facts

Which file and which key of config.json each command reads, family by family. Written by
`python -m eredu_conformance.harness.places`, which watches the readers; do not edit it.

`i` is `eredu inspect`, `g` is every command that decodes (`generate`, `bench`, `validate`) and `eredu.load`: they load
by one function, and inspect by the code that loading asks first. Keys are read on either level of a nested config: a
`text_config` counts before the top, and null is a missing value. What mlx-lm's class reads of the config that eredu
hands it is not listed.

Weights come from exactly the files that `model.safetensors.index.json` names, or without an index from
`model*.safetensors`. Where none of them holds a head, every other `.safetensors` beside them and one folder down
(`mtp.safetensors`, `optiq/mtp.safetensors`, `mtp/weights.safetensors`) is looked at, and counts as the head if all its
tensors are: named `mtp.…`, `language_model.mtp.…` or as the family's layers behind the last, or without `mtp.` and
together the whole head. Any other file is a stray, and is not read.

How weights are quantised `quantization` (MLX's), `quantization_config` or `compression_config` in config.json says,
else a file beside it: `hf_quant_config.json`, `quantize_config.json`, `quant_config.json`, `quanto_qmap.json` or
`quantization_map.json`, unless all tensors are plain floats. Where nobody says, the names and types of the tensors do.
"""
_OPENED: list[set[str]] = []
_READ: list[set[str]] = []


class Watched(dict[str, Any]):
    """A level of a config that notes which keys are asked for."""

    def get(self, key: str, default: Any = None) -> Any:
        """As a dictionary's."""
        for keys in _READ:
            keys.add(key)
        return super().get(key, default)


def _note_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _OPENED and isinstance(arguments[0], str):
        _OPENED[-1].add(arguments[0])


sys.addaudithook(_note_open)


@contextmanager
def _watching() -> Iterator[tuple[set[str], set[str]]]:
    """Keys that are asked for, and files that Python opens, inside the context."""
    keys: set[str] = set()
    files: set[str] = set()
    read = OpenedDirectory.__dict__["config"]
    original = read.func

    def watched(opened: OpenedDirectory) -> ModelConfig:
        config: ModelConfig = original(opened)
        values = Watched(config.values)
        return replace(config, values=values, decoder=Watched(config.decoder) if "text_config" in values else values)

    read.func = watched
    _READ.append(keys)
    _OPENED.append(files)
    try:
        yield keys, files
    finally:
        read.func = original
        _READ.pop()
        _OPENED.pop()


def places() -> dict[str, dict[str, str]]:
    """For each place, the letters of the commands that read it, by member."""
    found: dict[str, dict[str, str]] = {}
    for name in MEMBERS:
        with tempfile.TemporaryDirectory() as folder:
            path = zoo_member(name).write(Path(folder).resolve(), parts=Parts.SHARDED)
            for letter, command in COMMANDS.items():
                with _watching() as (keys, files):
                    command(path)
                inside = {Path(file).name for file in files if Path(file).parent == path}
                named = {"model-*.safetensors" if file.startswith("model-") else file for file in inside}
                for place in [*sorted(named), *(f"config.json: {key}" for key in sorted(keys))]:
                    row = found.setdefault(place, {})
                    row[name] = row.get(name, "") + letter
    return found


def table() -> str:
    """The content of `PLACES`."""
    lines = [f"| place | {' | '.join(MEMBERS)} |", f"| --- |{' --- |' * len(MEMBERS)}"]
    for place, letters in sorted(places().items()):
        lines.append(f"| `{place}` | {' | '.join(letters.get(name, '') for name in MEMBERS)} |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PLACES.write_text(table(), encoding="utf-8")
