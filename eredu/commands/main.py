"""The command `eredu`: its subcommands, and what each kind of failure looks like from a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from eredu import __version__
from eredu.commands.console import ExitStatus, print_error
from eredu.commands.convert import convert
from eredu.commands.fetch import fetch
from eredu.commands.generate import generate
from eredu.commands.inspect import inspect
from eredu.commands.plugins import PluginGroup
from eredu.contract.message import one_line
from eredu.files.aside_file import NO_ROOM

TRACEBACK_VARIABLE = "EREDU_TRACEBACK"
"""Environment variable that shows tracebacks of errors nobody foresaw."""

EXIT_STATUSES = (
    "Exit status: 0 done; 1 a check failed; 2 could not run, with one message on stderr that says what to do; "
    "130 interrupted, 143 terminated (what was printed stays)."
)

app = typer.Typer(
    name="eredu",
    cls=PluginGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=EXIT_STATUSES,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(fetch)
app.command()(inspect)
app.command()(convert)
app.command()(generate)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 (typer calls it so)
    if wanted:
        typer.echo(f"eredu {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Lossless multi-token prediction for MLX: a draft model proposes, the target decides, the output stays its own.

    Begin with `eredu fetch smollm2`, then
    `eredu generate --model smollm2 --assistant smollm2-draft "Write a story about a lighthouse."`
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; errors become one message on stderr.

    An error that was foreseen, whichever package raises it, says so by an attribute `exit_status`.
    """
    try:
        app(arguments, prog_name="eredu")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except Exception as error:
        foreseen = getattr(error, "exit_status", None)
        if isinstance(foreseen, int):
            print_error(str(error))
            return foreseen
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            print_error(unprinted(error))
            return ExitStatus.REFUSED
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        said = one_line(str(error))
        print_error(
            f"{type(error).__name__}: {said} (nobody foresaw this: please report it with the output of the same "
            f"command under {TRACEBACK_VARIABLE}=1)"
        )
        return ExitStatus.REFUSED
    return ExitStatus.OK


def finish_output(status: int) -> int:
    """Write out what was printed; return the exit status, another one where that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        print_error(unprinted(error))
        # What is left would be tried again, and fail again, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.REFUSED
    return status


def unprinted(error: OSError) -> str:
    """Standard output cannot be written, in words. All files of results raise errors of their own."""
    return f"standard output cannot be written: {error.strerror or error}; free some room, or send it elsewhere"
