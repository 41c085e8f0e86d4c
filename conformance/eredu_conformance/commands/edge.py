"""What the commands of this package share at their edge. They judge any engine; eredu lends its file writer alone."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from eredu.files.plain_console import PlainColumn, PlainConsole
from eredu_conformance.protocol import ConformanceError

CHECK_FAILED = 1
"""Exit status where something was judged and found wrong."""

JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object on stdout and nothing else there.", rich_help_panel="Output"),
]


class CommandError(ConformanceError, ValueError):
    """An argument or a file of a command is of no use; the text says what was expected."""


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object: the only thing on stdout of a command with `--json`."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def work_progress() -> Progress:
    """A progress bar on stderr that leaves nothing behind, silent where stderr is no terminal."""
    columns = (PlainColumn(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = PlainConsole(stderr=True)
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal)
