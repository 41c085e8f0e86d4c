"""The one way to open a checkpoint, whatever its form."""

from __future__ import annotations

from pathlib import Path

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.gguf_file import OpenedGguf
from eredu.checkpoints.gguf_header import MAGIC, is_gguf
from eredu.checkpoints.gguf_set import first_part, read_gguf
from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.weight_files import PICKLE_SUFFIXES
from eredu.contract.errors import CheckpointError

PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""First bytes of pickles, bare or in the archives that torch writes."""
OpenedCheckpoint = OpenedDirectory | OpenedGguf
"""What is handed down to inspection, loading, heads, tokenizer and matching, so that all decide from the same facts."""


def open_checkpoint(path: Path) -> OpenedCheckpoint:
    """Open a Hugging Face directory or a GGUF file. What a directory holds is read when it is first asked for.

    Nothing loads a weight: `report()` inspects headers and metadata, `tokenizer` reads the tokenizer alone.

    Raises `CheckpointError` for a path that does not exist, or is neither.
    """
    if path.is_dir():
        inside = gguf_within(path)
        return OpenedDirectory(path) if inside is None else OpenedGguf(inside, read_gguf(inside))
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; expected a Hugging Face directory or a GGUF file")
    if is_gguf(path):
        return OpenedGguf(path, read_gguf(path))
    raise CheckpointError(f"{path} {_what_it_is(path)}; expected a directory with SafeTensors weights, or a GGUF file")


def require_same_width(target: OpenedCheckpoint, heads: OpenedCheckpoint) -> None:
    """Raise `CheckpointError` for heads that read hidden states of another width than the target's."""
    if heads.hidden_size != target.hidden_size:
        raise CheckpointError(
            f"the heads in {heads.path} read hidden states of {heads.hidden_size} numbers, and the target has "
            f"{target.hidden_size}; give heads that were made for this target"
        )


def _what_it_is(path: Path) -> str:
    """What a file that is no GGUF is, by its first bytes and its name, in the words of an error."""
    with path.open("rb") as file:
        start = file.read(9)
    if path.suffix in PICKLE_SUFFIXES or start.startswith(PICKLE_STARTS):
        return "is a pickle file, which can run code and is never opened"
    if path.suffix == ".safetensors" or start[8:] == b"{":
        return f"holds weights alone, without their config.json; give the directory that has both: {path.parent}"
    return f"begins with {start[:4]!r}, and a GGUF with {MAGIC!r}: it is another file, or damaged"


def gguf_within(directory: Path) -> Path | None:
    """The GGUF, or the first part of the set, of a directory that holds nothing else; None where SafeTensors are there.

    Raises `CheckpointError` where there are several, for they are as a rule one model in several quantisations.
    """
    files = sorted(file for file in directory.iterdir() if file.suffix.lower() in {".gguf", ".safetensors"})
    if not files or any(file.suffix.lower() == ".safetensors" for file in files):
        return None
    sets = {first_part(file) for file in files}
    if len(sets) > 1:
        names = sorted(file.name for file in sets)
        raise CheckpointError(
            f"{directory} holds {len(names)} GGUF models; give the path of one: {', '.join(names[:8])}"
            f"{', ...' if len(names) > 8 else ''}"
        )
    return sets.pop()


def open_named(name: str | Path) -> OpenedCheckpoint:
    """Open a checkpoint by one of eredu's own names, by path, or by its name in the local Hugging Face cache.

    Raises `CheckpointError` for what is none of them.
    """
    return open_checkpoint(resolve_checkpoint(str(name)))
