"""Names of checkpoints and where they lie: those that eredu brings itself, paths, and the Hugging Face cache's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from eredu.checkpoints.hub_cache import cached_checkpoint, split_hub_name
from eredu.contract.errors import CheckpointError

TARGET_NAME = "smollm2"
DRAFT_NAME = "smollm2-draft"
TARGET_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHIPPED = {
    DRAFT_NAME: "a draft model for smollm2",
    "tiny-qwen3.5": "a small Qwen3.5 with its prediction head",
    "tiny-deepseek-v3": "a small DeepSeek V3 with its prediction head",
}
"""Checkpoints inside the package, each a directory of its name under `assets`, and what they are."""
NAMES = (TARGET_NAME, *SHIPPED)


def cache_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Folder of fetched checkpoints: `EREDU_CACHE`, else the platform's place for caches."""
    named = environment.get("EREDU_CACHE")
    if named:
        return Path(named).expanduser()
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "eredu"
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eredu"


def target_path(cache: Path | None = None) -> Path:
    """Where `eredu fetch smollm2` puts its file, whether or not it is there."""
    return (cache_directory() if cache is None else cache) / TARGET_FILE


def shipped_path(name: str) -> Path:
    """Where a checkpoint of `SHIPPED` lies inside the package."""
    return Path(__file__).parent.parent / "assets" / name


def resolve_checkpoint(name: str, cache: Path | None = None) -> Path:
    """Path of a checkpoint given by name or by path; a path that exists goes before a name of the hub.

    Raises `CheckpointError` for a name that is not fetched yet, or in part, and for a path that does not exist.
    """
    if name in SHIPPED:
        return shipped_path(name)
    if name == TARGET_NAME:
        path = target_path(cache)
        if not path.is_file():
            raise CheckpointError(
                f"'{TARGET_NAME}' is not in the cache ({path}); fetch it once: eredu fetch {TARGET_NAME}"
            )
        return path
    path = Path(name).expanduser()
    if _exists(path):
        return path
    cached = cached_checkpoint(name)
    if cached is not None:
        return cached
    if split_hub_name(name) is not None:
        raise CheckpointError(
            f"{name!r} is no path that exists, and nothing of that name lies in the Hugging Face cache; fetch it once: "
            f"eredu fetch {name}"
        )
    raise CheckpointError(
        f"{name!r} is neither a path that exists nor one of the names {', '.join(NAMES)}; give a SafeTensors "
        "directory, a GGUF file, one of the names, or a name of the Hugging Face hub (org/name)"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a path, or with a NUL in it
        return False
