"""What every subcommand shares at its edge: exit statuses, results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import platform
import sys
from enum import IntEnum
from importlib import metadata
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from eredu.contract.message import one_line, visible
from eredu.files.plain_console import PlainColumn, PlainConsole

DISTRIBUTIONS = ("eredu", "mlx", "mlx-lm")
"""Distributions whose versions a result depends on."""


class ExitStatus(IntEnum):
    """What the shell gets."""

    OK = 0
    CHECK_FAILED = 1
    REFUSED = 2
    INTERRUPTED = 130


def message_console() -> PlainConsole:
    """A console on stderr: tables, progress and messages never mix with a result."""
    return PlainConsole(stderr=True)


def print_error(message: str) -> None:
    """Print one message, whole and unwrapped, so that it can be searched for."""
    sys.stdout.flush()
    sys.stderr.write(f"eredu: error: {visible(message)}\n")


def print_note(message: str) -> None:
    """Print one line on stderr that is no error."""
    sys.stderr.write(f"eredu: {one_line(message)}\n")


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object: the only thing on stdout of a command with `--json`."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(title: str, rows: dict[str, str]) -> None:
    """Print names and values on stderr."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    message_console().print(table)


def work_progress() -> Progress:
    """A progress bar on stderr that leaves nothing behind, silent where stderr is no terminal."""
    columns = (PlainColumn(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = message_console()
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal)


def versions() -> dict[str, str]:
    """Versions of Python and of what a result depends on, by distribution name."""
    return {"python": platform.python_version(), **{name: _version(name) for name in DISTRIBUTIONS}}


def _version(distribution: str) -> str:
    """Version of a distribution; a source tree that was never installed has no metadata."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
