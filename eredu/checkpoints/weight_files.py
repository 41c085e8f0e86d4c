"""The weight files of a Hugging Face directory: those that its index names, else those of a pattern.

Pickle files are never opened: they can run code.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from eredu.checkpoints.config import read_json
from eredu.checkpoints.safetensors_header import SafetensorsHeader, read_safetensors_header
from eredu.contract.errors import CheckpointError

INDEX_NAME = "model.safetensors.index.json"
PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})


def read_directory_headers(directory: Path, pattern: str = "model*.safetensors") -> tuple[SafetensorsHeader, ...]:
    """Headers of all weight files of a Hugging Face directory, by the index file where there is one.

    Without one, the files that match `pattern` are taken.

    Raises `CheckpointError` for weights that are missing, damaged, outside the directory, or pickled.
    """
    index = directory / INDEX_NAME
    if index.is_file():
        return _read_indexed(directory, read_weight_map(index))
    files = sorted(directory.glob(pattern))
    if not files:
        raise CheckpointError(f"{directory} has no {pattern}{_what_else(directory)}")
    return _read_files(directory, files)


def read_weight_map(index: Path) -> dict[str, str]:
    """Names of files by names of tensors. Raises `CheckpointError` for no such map, and names that lead elsewhere."""
    value = read_json(index)
    names = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(names, dict) or not names or not all(isinstance(file, str) for file in names.values()):
        raise CheckpointError(f"{index} has no weight_map from tensor names to file names; fetch it again")
    for file in names.values():
        _require_inside(index, file)
    return names


def _require_inside(index: Path, file: str) -> None:
    """Refuse names that lead out of the directory, on any system: an index is data and may come from anybody."""
    posix, windows = PurePosixPath(file), PureWindowsPath(file)
    leads_out = posix.is_absolute() or windows.is_absolute() or windows.drive or ".." in {*posix.parts, *windows.parts}
    if leads_out or not file.endswith(".safetensors"):
        raise CheckpointError(
            f"{index} names the weight file {file!r}; expected a .safetensors file inside the directory: do not use "
            "this checkpoint unless you know why it says so"
        )


def _read_indexed(directory: Path, names: dict[str, str]) -> tuple[SafetensorsHeader, ...]:
    files = sorted(set(names.values()))
    missing = [file for file in files if not (directory / file).is_file()]
    if missing:
        raise CheckpointError(
            f"{directory} lacks {len(missing)} of the {len(files)} weight files that its index names, such as "
            f"{missing[0]}: fetch the rest"
        )
    headers = _read_files(directory, [directory / file for file in files])
    absent = names.keys() - {tensor.name for header in headers for tensor in header.tensors}
    if absent:
        raise CheckpointError(
            f"the index of {directory} lists {len(absent)} tensors that its files lack, such as {min(absent)!r}: "
            "index and files are not of one download"
        )
    return headers


def _read_files(directory: Path, files: Iterable[Path]) -> tuple[SafetensorsHeader, ...]:
    headers = tuple(read_safetensors_header(file) for file in files)
    seen: set[str] = set()
    for name in (tensor.name for header in headers for tensor in header.tensors):
        if name in seen:
            raise CheckpointError(f"the weight files of {directory} hold tensor {name!r} twice; remove the stray file")
        seen.add(name)
    return headers


def _what_else(directory: Path) -> str:
    """What the directory holds instead of SafeTensors weights, and what to do about it."""
    names = sorted(path.name for path in directory.iterdir())
    pickled = [name for name in names if Path(name).suffix in PICKLE_SUFFIXES]
    if pickled:
        return (
            f", only pickled weights ({pickled[0]}), which can run code and are never opened; get the SafeTensors "
            "form, or convert them with transformers in a place you trust"
        )
    other = [name for name in names if name.endswith((".safetensors", ".gguf"))]
    if other:
        return f"; it holds {other[0]}: give the path of a GGUF itself, name SafeTensors weights model*.safetensors"
    return "; expected the weights beside config.json"
