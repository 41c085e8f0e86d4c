"""GGUF files as they are published: one file, or a set of numbered parts that are one checkpoint together.

`llama-gguf-split` and the converters write `split.no`, `split.count` and `split.tensors.count` into every part, and
all other metadata into the first. A part is never taken for the whole: the others are found by their names beside it,
or it is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

from eredu.checkpoints.gguf_header import GgufHeader, PlacedTensor, read_gguf_header
from eredu.contract.errors import CheckpointError

PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.[Gg][Gg][Uu][Ff])?$")
"""Name of a part, numbered from 1."""
CUT = re.compile(r"[.-](?:part-?\d+(?:of\d+)?|split-[a-z]{1,3})$")
"""Endings of files that were cut by bytes, to be put together before anything reads them."""
MAX_PARTS = 1000


def read_gguf(path: Path) -> GgufHeader:
    """The header of a file, or of the set that it is a part of, whichever part is given.

    Raises `CheckpointError` for what no GGUF reader takes, and for a set of which a part is missing, is another's, or
    cannot be found by its name.
    """
    if CUT.search(path.name):
        raise CheckpointError(
            f"{path} is by its name a piece of a file that was cut by bytes; put the pieces together first "
            f"(cat PIECES > {CUT.sub('', path.name)}), and give the whole file"
        )
    header = read_gguf_header(path)
    count = _split_number(header, "split.count", least=0) if "split.count" in header.metadata else 0
    return header if count <= 1 else _join(header, count)


def _join(given: GgufHeader, count: int) -> GgufHeader:
    paths = part_paths(given.path, count)
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise CheckpointError(
            f"{given.path} is one of {count} parts of a GGUF, and {len(missing)} of them are missing beside it, such "
            f"as {missing[0]}: fetch the rest"
        )
    parts = [given if path == given.path else read_gguf_header(path) for path in paths]
    for number, part in enumerate(parts):
        found = tuple(_split_number(part, key, least=0) for key in ("split.no", "split.count"))
        if found != (number, count):
            raise CheckpointError(
                f"{part.path} says that it is part {found[0] + 1} of {found[1]}, and its name says part {number + 1} "
                f"of {count}: the parts are not of one set. Fetch them again"
            )
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    _require_whole(parts[0], tensors)
    metadata = {key: value for key, value in parts[0].metadata.items() if not key.startswith("split.")}
    return GgufHeader(parts[0].path, metadata, tensors)


def part_paths(path: Path, count: int) -> tuple[Path, ...]:
    """Where the parts of a set lie, by the name of one. Raises `CheckpointError` where its name does not tell."""
    name = PART.match(path.name)
    if name is None or int(name["count"]) != count or not 1 <= int(name["number"]) <= count <= MAX_PARTS:
        raise CheckpointError(
            f"{path} is one of {count} parts of a GGUF, and the others are found by names such as "
            f"MODEL-00001-of-{count:05}.gguf, which its own name is not; give a part (or a link) that is named "
            "so, with the others beside it"
        )
    ending = name["ending"] or ""
    return tuple(path.with_name(f"{name['stem']}-{number:05}-of-{count:05}{ending}") for number in range(1, count + 1))


def first_part(path: Path) -> Path:
    """The first part of the set that a file is of by its name; the file itself where it is of none."""
    name = PART.match(path.name)
    return path if name is None else path.with_name(f"{name['stem']}-00001-of-{name['count']}{name['ending'] or ''}")


def _require_whole(first: GgufHeader, tensors: tuple[PlacedTensor, ...]) -> None:
    total = first.metadata.get("split.tensors.count")
    names = {tensor.name for tensor in tensors}
    if len(names) != len(tensors) or (total is not None and total != len(tensors)):
        raise CheckpointError(
            f"the parts of {first.path} hold {len(tensors)} tensors of {len(names)} names, and should hold {total}: "
            "they are not of one set. Fetch them again"
        )


def _split_number(header: GgufHeader, key: str, *, least: int) -> int:
    value = header.metadata.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise CheckpointError(f"{header.path} gives {key} as {value!r}; expected a whole number: fetch it again")
    return value
