"""What a reader of the terminal gets: the smoke stage, each failure with what reproduces it, and a table by rule."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eredu_conformance.checks.check import Check
from eredu_conformance.protocol import Standing
from eredu_conformance.runner.replay import replay_command, writing_command
from eredu_conformance.runner.report import FamilyCell, Report, RuleLine
from eredu_conformance.runner.result import CheckResult, Outcome

_STYLES = {"broken": "bold red", "not judged": "bold yellow", "no violation seen": "green", "not asked": "dim"}
_MARKS = {"broken": "!", "not judged": "?", "no violation seen": "", "not asked": ""}
"""Behind a cell's count: a failure, or a check that raised. The rest was skipped."""


def print_report(report: Report, console: Console) -> None:
    """Print everything; failures come before the table, so that the verdict is the last thing on the screen."""
    _print_smoke(report, console)
    for result in report.results:
        if result.outcome is Outcome.BROKEN or report.standing(result) is Standing.FAILED:
            _print_failure(report, result, console)
    if report.families:
        console.print(family_table(report))
    if report.results:
        console.print(rule_table(report))
        _print_skips(report, console)
    _print_expectations(report, console)
    for line in summary(report):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def rule_table(report: Report) -> Table:
    """Results by rule."""
    title = f"{report.subject}, {report.plan.tier.value} tier, seed {report.plan.seed}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule", no_wrap=True)
    for name in ("pass", "fail", "skip"):
        table.add_column(name, justify="right")
    table.add_column("verdict", no_wrap=True)
    for line in report.rules:
        table.add_row(*_cells(report, line))
    return table


def family_table(report: Report) -> Table:
    """Results by model family: a row a family, a column a claim."""
    title = f"{report.subject}, checks passed by model family, seed {report.plan.seed}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("family", no_wrap=True)
    claims = tuple(dict.fromkeys(cell.claim for line in report.families for cell in line.cells))
    for claim in claims:
        table.add_column(claim, justify="right", no_wrap=True)
    for line in report.families:
        cells = {cell.claim: cell for cell in line.cells}
        table.add_row(line.family, *(_family_cell(cells.get(claim)) for claim in claims))
    return table


def _family_cell(cell: FamilyCell | None) -> Text:
    """How many of a cell's checks passed; a dot where a family has no such claim."""
    if cell is None:
        return Text("·", style="dim")
    whole = cell.passed == len(cell.results)
    shown = str(cell.passed) if whole else f"{cell.passed}/{len(cell.results)}{_MARKS[cell.verdict]}"
    return Text(shown, style=_STYLES[cell.verdict])


def _cells(report: Report, line: RuleLine) -> list[str | Text]:
    expected = sum(report.standing(result) is Standing.EXPECTED_FAILURE for result in line.results)
    failed, broken = line.count(Outcome.FAILED), line.count(Outcome.BROKEN)
    shown = (
        str(failed) + (f" ({expected} expected)" if expected else "") + (f" + {broken} not judged" if broken else "")
    )
    counts = [str(line.count(Outcome.PASSED)), shown, str(line.count(Outcome.SKIPPED))]
    return [line.rule, *counts, Text(line.verdict, style=_STYLES[line.verdict])]


def summary(report: Report) -> list[str]:
    """The last lines: what it comes to, in words that claim no more than was seen."""
    if report.capabilities is None:
        return [f"{report.subject} could not be judged: {report.smoke.verdict} (see the smoke stage above)."]
    counts = report.counts
    total = (
        f"{len(report.results)} checks in {report.elapsed_s:.0f} s: {counts[Outcome.PASSED]} passed, "
        f"{counts[Outcome.FAILED]} failed, {counts[Outcome.SKIPPED]} skipped"
    )
    if counts[Outcome.BROKEN]:
        return [
            total,
            f"{counts[Outcome.BROKEN]} checks raised themselves: please report that; nothing follows from it.",
        ]
    if report.status:
        broken = [line.rule for line in report.rules if line.verdict == "broken"]
        return [
            total,
            f"{report.subject} does not conform: it breaks {len(broken)} of {len(report.rules)} rules asked.",
        ]
    honest = "Equalities are facts about these cases; statistics only failed to find a difference."
    return [total, f"{report.subject} conforms as far as this run looked. {honest}"]


def _print_smoke(report: Report, console: Console) -> None:
    for check in report.smoke.checks:
        if check.passed is False:
            console.print(
                f"{check.name}: {check.blame}. {check.message}", style="bold red", soft_wrap=True, markup=False
            )


def _print_failure(report: Report, result: CheckResult, console: Console) -> None:
    heading = "not judged" if result.outcome is Outcome.BROKEN else "broken"
    lines = [f"{result.rule} {heading} by {result.id}", f"  claim    {result.about}"]
    lines += [f"  {'seen' if index == 0 else '':<8} {line}" for index, line in enumerate(result.message.splitlines())]
    lines.append(f"  seed     {result.seed}")
    if result.history:
        lines.append(f"  history  {list(result.history)} (prompt and output, the smallest found)")
    if requests := result.case.get("requests"):
        lines.append(f"  case     {result.case.get('pair')}, {requests[0].get('options')}")
    lines.append(f"  replay   {replay_command(report.source, result)}")
    if writing := writing_command(result):
        lines.append(f"  models   {writing}")
    console.print("\n".join(lines), soft_wrap=True, markup=False, highlight=False)
    console.print()


def _print_skips(report: Report, console: Console) -> None:
    reasons: dict[str, int] = {}
    for result in report.results:
        if result.outcome is Outcome.SKIPPED:
            reasons[result.message] = reasons.get(result.message, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        console.print(f"skipped {count}: {reason}", style="dim", soft_wrap=True, markup=False, highlight=False)


def _print_expectations(report: Report, console: Console) -> None:
    for result in report.surprises:
        console.print(f"{result.id} passed and was expected to fail: take its entry out", soft_wrap=True, markup=False)
    for entry in report.stale:
        console.print(f"no check matches the expected failure {entry.check!r}", soft_wrap=True, markup=False)


def check_table(checks: Sequence[Check]) -> Table:
    """The list of checks."""
    table = Table(box=None, pad_edge=False)
    for name in ("check", "rule", "tier", "claim"):
        table.add_column(name, no_wrap=name != "claim", overflow="fold")
    for check in checks:
        table.add_row(check.id, check.rule, check.tier.value, check.about)
    return table
