"""The command `eredu`: its subcommands, and what each kind of failure looks like from a shell."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from eredu import __version__
from eredu.commands.console import ExitStatus, print_error
from eredu.commands.fetch import fetch
from eredu.commands.generate import generate
from eredu.commands.inspect import inspect
from eredu.commands.plugins import PluginGroup

TRACEBACK_VARIABLE = "EREDU_TRACEBACK"
"""Environment variable that shows tracebacks of errors nobody foresaw."""

EXIT_STATUSES = (
    "Exit status: 0 done; 1 a check failed; 2 could not run, with one message on stderr that says what to do; "
    "130 interrupted (what was printed stays)."
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
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        print_error(
            f"{type(error).__name__}: {error} (nobody foresaw this: please report it with the output of the same "
            f"command under {TRACEBACK_VARIABLE}=1)"
        )
        return ExitStatus.REFUSED
    return ExitStatus.OK


def run() -> None:
    """Entry point of the console script."""
    if hasattr(signal, "SIGPIPE"):
        # A reader that has read enough (`| head`) ends this process silently, as it ends every other filter.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
