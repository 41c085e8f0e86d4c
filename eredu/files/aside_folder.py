"""A folder that is written aside, and takes its name when it is whole: a checkpoint is never half there."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from eredu.contract.errors import OutputError
from eredu.files.aside_file import output_error
from eredu.files.held_folder import held_folder


@contextlib.contextmanager
def aside_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, which becomes `path` behind the `with` statement; an error discards it.

    What a killed process left of the same path goes at the next run. Raises `OutputError` where `path` cannot be made,
    and where it is there and not empty: a folder of somebody's is not replaced.
    """
    target = path.expanduser().absolute()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise OutputError(f"{path} is there already, and is no empty folder; remove it first, or name another place")
    try:
        with held_folder(target.parent, f".{target.name[:100]}.partial-") as held:
            made = held / "whole"
            made.mkdir()
            yield made
            if target.exists():
                target.rmdir()
            shutil.move(made, target)
    except OSError as error:
        raise output_error(path, error) from error
