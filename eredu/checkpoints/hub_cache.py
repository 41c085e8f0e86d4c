"""Checkpoints that lie in the local Hugging Face cache, by the name that they have on the hub. Nothing is downloaded.

`models--ORG--NAME/refs/main` names a commit, and `snapshots/COMMIT` holds links to the files of it that were fetched. A
download that was broken off leaves a snapshot with some of the files: it is called that, and not taken for the whole.
"""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import constants

from eredu.checkpoints.weight_files import INDEX_NAME, read_weight_map
from eredu.contract.errors import CheckpointError

NAME = re.compile(r"^(?P<repository>[A-Za-z0-9][\w.-]*/[\w.-]+)(?:/(?P<inside>[^/].*))?$")
"""A name of the hub, and behind it, for a GGUF among several, a file."""
REVISION = "main"


def split_hub_name(name: str) -> tuple[str, str | None] | None:
    """Repository and file of a name such as `org/name` or `org/name/file.gguf`; None for what is no such name."""
    found = NAME.match(name)
    if found is None or ".." in name or name.count("--"):
        return None
    return found["repository"], found["inside"]


def repository_folder(repository: str) -> Path:
    """Where the cache keeps a repository, whether or not it is there: `HF_HUB_CACHE`, or below `HF_HOME`."""
    return Path(constants.HF_HUB_CACHE).expanduser() / f"models--{repository.replace('/', '--')}"


def cached_checkpoint(name: str) -> Path | None:
    """The folder, or the file, of a name of the hub in the local cache; None where nothing of it is there.

    Raises `CheckpointError` where a part of it is there.
    """
    parts = split_hub_name(name)
    if parts is None or not (folder := repository_folder(parts[0])).is_dir():
        return None
    repository, inside = parts
    reference = folder / "refs" / REVISION
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else ""
    snapshot = folder / "snapshots" / commit
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit) or not snapshot.is_dir():
        raise _partial(repository, "no snapshot of its main revision is there")
    if inside is not None:
        if not (snapshot / inside).exists():
            raise _partial(name, f"{inside} is not in the snapshot")
        return snapshot / inside
    _require_whole(repository, snapshot)
    return snapshot


def _require_whole(repository: str, snapshot: Path) -> None:
    broken = sorted(path.name for path in snapshot.rglob("*") if path.is_symlink() and not path.exists())
    if broken:
        raise _partial(repository, f"{broken[0]} leads to a file that is not there")
    index = snapshot / INDEX_NAME
    wanted = set(read_weight_map(index).values()) if index.is_file() else set()
    missing = sorted(file for file in wanted if not (snapshot / file).is_file())
    if missing:
        raise _partial(
            repository, f"{len(missing)} of the {len(wanted)} weight files are missing, such as {missing[0]}"
        )
    files = {path.suffix.lower() for path in snapshot.iterdir()}
    if not files & {".safetensors", ".gguf"}:
        raise _partial(repository, "no weights are there (.safetensors or .gguf)")


def _partial(name: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"'{name}' lies in the Hugging Face cache in part: {what}. Fetch the rest: eredu fetch {name}"
    )
