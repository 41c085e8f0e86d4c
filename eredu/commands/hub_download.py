"""Download a model of the Hugging Face hub into its own cache, with its own library: files of weights and text alone.

Files that could run code (pickles, modules) are never asked for. What is fetched already is not fetched again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants, errors
from huggingface_hub.utils.tqdm import disable_progress_bars

from eredu.checkpoints.gguf_set import PART, first_part
from eredu.checkpoints.hub_cache import REVISION, cached_checkpoint
from eredu.contract.errors import CheckpointError
from eredu.files.aside_file import NO_ROOM, output_error

TEXT = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")
"""Configs, tokenizers and templates, in the repository's own folder and one below."""

TRANSPORTS = frozenset({"huggingface_hub", "httpx", "httpx2", "httpcore", "requests"})
"""Packages whose errors tell of the network: which one the library goes through has changed before."""


@dataclass(frozen=True, slots=True)
class HubReport:
    """What a download left behind: where the checkpoint lies, and how much of it there is."""

    path: str
    files: int
    size_bytes: int

    def to_json(self) -> dict[str, str | int]:
        """The stable form."""
        return asdict(self)


def download(repository: str, inside: str | None = None) -> HubReport:
    """Download a repository's SafeTensors and what belongs to them, or its GGUF.

    Args:
        repository: `org/name`.
        inside: One file of it: of several GGUF one must be chosen. All parts of a set come with each of them.

    Raises `CheckpointError` where the network does not allow it, for a repository that is not there or not open to
    the reader, and for one without weights or with several GGUF. Raises `OutputError` for a full disk.
    """
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # what goes wrong is told once, below
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        wanted = chosen_files(repository, _listed(repository), inside)
        huggingface_hub.snapshot_download(repository, revision=REVISION, allow_patterns=[_exact(f) for f in wanted])
    except CheckpointError:
        raise
    except OSError as error:
        if error.errno in NO_ROOM:
            raise output_error(Path(constants.HF_HUB_CACHE), error) from error
        raise _undownloaded(repository, error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in TRANSPORTS:
            raise
        raise _undownloaded(repository, error) from error
    name = repository if inside is None else f"{repository}/{inside}"
    path = cached_checkpoint(name)
    if path is None:
        raise CheckpointError(f"'{name}' was downloaded and is not in {constants.HF_HUB_CACHE}: something removed it")
    snapshot = path if inside is None else Path(str(path).removesuffix(inside))
    return HubReport(str(path), len(wanted), sum((snapshot / file).stat().st_size for file in wanted))


def _listed(repository: str) -> list[str]:
    found = huggingface_hub.HfApi().model_info(repository, revision=REVISION)
    return [file.rfilename for file in found.siblings or ()]


def chosen_files(repository: str, files: Sequence[str], inside: str | None) -> list[str]:
    """Which files of a repository are wanted. Raises as `download` does."""
    if inside is not None:
        if inside not in files:
            raise CheckpointError(f"{repository} on the hub has no file {inside!r}; see its list of files there")
        return [file for file in files if _set_of(file) == _set_of(inside)]
    text = [file for file in files if file.count("/") <= 1 and any(fnmatchcase(file, pattern) for pattern in TEXT)]
    weights = [file for file in files if file.endswith(".safetensors") and file.count("/") <= 1]
    if weights:
        return [*weights, *text]
    found = sorted({_set_of(file) for file in files if file.lower().endswith(".gguf") and "/" not in file})
    if not found:
        raise CheckpointError(
            f"{repository} on the hub has neither SafeTensors nor GGUF files; eredu opens no other weights"
        )
    if len(found) > 1:
        raise CheckpointError(
            f"{repository} on the hub has {len(found)} GGUF models; name one, as in: eredu fetch "
            f"{repository}/{found[0]} (others: {', '.join(found[1:6])}{', ...' if len(found) > 6 else ''})"
        )
    return [*(file for file in files if _set_of(file) == found[0]), *text]


def _set_of(file: str) -> str:
    """A file's own name, or that of the first part of its set."""
    return str(first_part(Path(file))) if PART.match(Path(file).name) else file


def _exact(file: str) -> str:
    """A pattern that matches one name alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in file)


def _undownloaded(repository: str, error: Exception) -> CheckpointError:
    match error:
        case errors.GatedRepoError():
            what = f"its terms must be accepted first, at {constants.ENDPOINT}/{repository}; then log in: hf auth login"
        case errors.RepositoryNotFoundError() | errors.RevisionNotFoundError():
            what = "there is no such model, or it is private: check the name, or log in: hf auth login"
        case errors.HFValidationError():
            what = f"{error}"
        case _:
            what = (
                f"{constants.ENDPOINT} cannot be reached from here, or broke off ({type(error).__name__}: {error}). "
                "Check the network and HF_HUB_OFFLINE, or fetch it elsewhere and give the path of its folder"
            )
    return CheckpointError(f"'{repository}' could not be fetched: {what}")
