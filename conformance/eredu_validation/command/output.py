"""What `eredu validate` shows and writes: a bar with the running evidence, the result in words, JSON and a report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from eredu.commands.console import message_console, print_json
from eredu.contract.message import visible
from eredu.files.aside_file import require_writable, write_json, write_text
from eredu.files.plain_console import PlainColumn
from eredu_validation.evidence.verdict import e_value_text, round_up
from eredu_validation.report.html_report import page_of
from eredu_validation.report.plots import require_plots
from eredu_validation.session.goal import LawProgress


@dataclass(frozen=True)
class Outputs:
    """Where a result goes beside the screen.

    Attributes:
        json_file: The result as JSON; `-` is stdout, which then has nothing else.
        html_file: The report.
    """

    json_file: Path | None = None
    html_file: Path | None = None

    def check(self) -> None:
        """Raise `OutputError` before the work, not behind it, for what cannot be written."""
        for name, file in (("--json", self.json_file), ("--html", self.html_file)):
            if file is None or (name == "--json" and str(file) == "-"):
                continue
            require_writable(file)
        if self.html_file is not None:
            require_plots()

    def give(self, result: dict[str, Any]) -> None:
        """Print and write a result."""
        if self.html_file is not None:
            write_text(self.html_file, page_of(result))
        if str(self.json_file) == "-":
            print_json(result)
            return
        if self.json_file is not None:
            write_json(self.json_file, result)
        print_result(result)


class EvidenceBar:
    """A progress bar on stderr, silent where stderr is no terminal: tokens, e-value, what is resolved, time left.

    Args:
        needed: Tokens that reach the goal; None where that is not known.
    """

    def __init__(self, needed: int | None) -> None:
        console = message_console()
        columns = (
            PlainColumn(),
            BarColumn(),
            MofNCompleteColumn(),
            PlainColumn("{task.fields[evidence]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("preparing", total=needed, evidence="")

    def __enter__(self) -> EvidenceBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def needed(self, tokens: int | None) -> None:
        """So many tokens reach the goal."""
        self._bar.update(self._task, total=tokens)

    def part(self, name: str) -> None:
        """A part is being measured."""
        self._bar.update(self._task, description=name)

    def law(self, progress: LawProgress) -> None:
        """Tokens were drawn or taken."""
        resolved = "nothing resolved yet" if progress.resolved >= 1 else f"resolves {round_up(progress.resolved):g}"
        text = f"e-value {e_value_text(progress.log_e)}, {resolved}"
        self._bar.update(self._task, description="law", completed=progress.tokens, evidence=text)


def print_result(result: dict[str, Any]) -> None:
    """Each part in a line, then the verdict, on stdout."""
    lines = [(name, part["text"]) for name, part in result["parts"].items()]
    lines.append(("law", law_line(result["law"])))
    divergences = result["parts"].get("path", {}).get("divergences", [])
    lines += [("replay", each["replay"]) for each in divergences if not each["near_tie"] and each["replay"]]
    for name, text in lines:
        typer.echo(f"{name + ':':<10} {visible(text)}")
    typer.echo(visible(result["verdict"]["text"]))


def law_line(law: dict[str, Any]) -> str:
    """The evidence in a line."""
    verdict, terms = law["verdict"], law["terms"]
    log_e = math.inf if verdict["log_e_value"] is None else verdict["log_e_value"]
    rejecting = [test for test in law["diagnostics"] if test["rejects"]]
    text = (
        f"{verdict['tokens']:,} tokens, e-value {e_value_text(log_e)} of {1 / terms['alpha']:g}, "
        f"tolerance {terms['tolerance']:.1e}"
    )
    if rejecting:
        first = rejecting[0]
        text += f"; diagnostics point to {first['stratum']} ({first['name']} by {first['order']})"
    return text
