"""`eredu trace`: what an engine wrote about itself, held against the machine of the specification."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from eredu.contract.message import visible
from eredu_conformance.commands.edge import CHECK_FAILED, CommandError, JsonOption, print_json
from eredu_spec.rules import rules
from eredu_spec.trace import Finding, Replay, TraceFormError
from eredu_spec.trace_form import read_numbered

trace = typer.Typer(
    name="trace", no_args_is_help=True, help="Work with traces, as `eredu generate --trace` writes them."
)


@trace.callback()
def describe() -> None:
    """Work with traces, as `eredu generate --trace FILE` and other engines write them."""


@trace.command()
def check(
    file: Annotated[Path, typer.Argument(help="The trace: JSON lines; '-' reads standard input.")],
    *,
    partial: Annotated[
        bool, typer.Option("--partial", help="The trace may end before its requests do: it was cut, or still grows.")
    ] = False,
    ring: Annotated[
        bool, typer.Option("--ring/--no-ring", help="--no-ring: the engine serves its requests in an order of its own.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Replay a trace through the machine of the specification, and name the first rule that it breaks.

    Exit status 0: every event follows the rules. 1: one does not. 2: the file is no trace.
    """
    replayed = _replay(file, ring=ring, partial=partial)
    if as_json:
        print_json(replayed)
    elif replayed["finding"] is None:
        typer.echo(f"{replayed['events']} events of {replayed['requests']} requests follow the rules")
    else:
        _print_finding(replayed["finding"])
    if replayed["finding"] is not None:
        raise typer.Exit(CHECK_FAILED)


def _replay(file: Path, *, ring: bool, partial: bool) -> dict[str, Any]:
    """Follow the trace to its first broken rule. Raises `CommandError` where the file is none."""
    replay, count, line = Replay(ring=ring), 0, 0
    try:
        with _opened(file) as lines:
            for line, event in read_numbered(lines):
                finding = replay.follow(count, event)
                count += 1
                if finding is not None:
                    return _described(replay, count, finding, line=line, event=event)
    except TraceFormError as error:
        place = "" if str(error).startswith("line ") else f"line {line}: "
        raise CommandError(f"{file} is no trace: {place}{error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error
    if count == 0:
        raise CommandError(f"{file} is no trace: it holds no event; `eredu generate --trace FILE` writes one")
    finding = None if partial else replay.unfinished(count)
    return _described(replay, count, finding, line=None, event=None)


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    """The lines of the file, which end at line feeds and nowhere else."""
    if str(file) == "-":
        lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n")
        try:
            yield lines
        finally:
            lines.detach()  # or its end would close standard input
        return
    with file.open(encoding="utf-8", newline="\n") as opened:
        yield opened


def _described(
    replay: Replay, count: int, finding: Finding | None, *, line: int | None, event: dict[str, Any] | None
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "conforms": finding is None,
        "events": count,
        "requests": len(replay.terminals),
        "finding": None,
    }
    if finding is not None:
        place = {"line": line, "turn": None, "request": None, "event": None}
        if event is not None:
            place |= {name: event[name] for name in ("turn", "request", "event")}
        text = rules()[finding.rule].text.replace("**", "")
        described["finding"] = {**place, "rule": finding.rule, "message": finding.message, "text": text}
    return described


def _print_finding(finding: dict[str, Any]) -> None:
    if finding["line"] is None:
        place = "the end of the trace"
    else:
        place = "line {line}, turn {turn}: '{event}' of request {request}".format(**finding)
    typer.echo(f"{visible(place)} breaks {finding['rule']}")
    typer.echo(f"  {visible(finding['message'])}")
    typer.echo(f"  rule: {finding['text']}")
