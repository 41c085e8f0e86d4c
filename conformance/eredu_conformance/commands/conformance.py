"""`eredu conformance`: hold an engine to the rules."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from eredu.files.plain_console import PlainConsole
from eredu_conformance.checks.check import Kind, Tier
from eredu_conformance.commands.edge import CHECK_FAILED, CommandError, work_progress
from eredu_conformance.protocol import SUBJECTS, Capabilities, ExpectedFailures, SubjectSource, read_expected_failures
from eredu_conformance.runner import CheckResult, Outcome, Plan, Report, conduct
from eredu_conformance.runner.html import html_page
from eredu_conformance.runner.junit import junit_tree
from eredu_conformance.runner.kill_table import print_kill_table
from eredu_conformance.runner.records import report_record
from eredu_conformance.runner.table import check_table, print_report
from eredu_conformance.zoo import MEMBERS

CHOICE = "Which checks"
REPORTS = "Reports"

TIERS = ("quick", "standard", "nightly")
KINDS = ("path", "law", "state", "stateful", "trace", "family")


def conformance(
    *,
    subject: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(SUBJECTS)}, or package.module:Factory.",
        ),
    ] = "eredu",
    command: Annotated[
        str | None, typer.Option(help="A program that speaks the suite's JSON lines, instead of --subject.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(KINDS)}; may be repeated.", rich_help_panel=CHOICE)
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Rules, such as 'terminal.*'.", rich_help_panel=CHOICE)
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Model families of the zoo, or all: their checks, and no others.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Checks by id; one in full is run whatever --tier.", rich_help_panel=CHOICE
        ),
    ] = None,
    tier: Annotated[str, typer.Option(help=f"{', '.join(TIERS)}.", rich_help_panel=CHOICE)] = "standard",
    seed: Annotated[
        int | None, typer.Option(help="0 unless given; the nightly tier draws a new one.", rich_help_panel=CHOICE)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; as many as there are cores unless given.", min=0)] = 0,
    list_checks: Annotated[
        bool, typer.Option("--list", help="Print the chosen checks and run none.", rich_help_panel=CHOICE)
    ] = False,
    expected: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Your expected failures.", rich_help_panel=REPORTS)
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="Print the kill table: every planted fault and the check that kills it.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE.xml", rich_help_panel=REPORTS)] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE.json", rich_help_panel=REPORTS)] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="A page that stands alone.", rich_help_panel=REPORTS)
    ] = None,
) -> None:
    """Hold an engine of speculative decoding to the rules, and print what was seen, rule by rule.

    A smoke stage comes first and tells a wrong adapter from a wrong engine. Each failure comes with its rule, its seed,
    the smallest history found and a command that does that check again.

    Exit status: 0 no rule was seen broken, 1 some were, 2 nothing could be judged.
    """
    if faults:
        raise typer.Exit(_print_faults(_one_of("--tier", tier, TIERS), jobs or os.cpu_count() or 1))
    plan = Plan(
        tier=Tier(_one_of("--tier", tier, TIERS)),
        kinds=tuple(Kind(_one_of("--kind", item, KINDS)) for item in kind or ()),
        rules=tuple(rule or ()),
        checks=tuple(check or ()),
        families=_families(family or [], kind or []),
        seed=_seed(seed, tier),
    )
    if list_checks:
        _print_list(plan)
        return
    source = SubjectSource(name=subject, command=command)
    _require_writable(junit, as_json, html)
    report = _conduct(source, plan, jobs or os.cpu_count() or 1, expected)
    _write(report, junit=junit, as_json=as_json, html=html)
    _print(report)
    raise typer.Exit(int(report.status))


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise CommandError(f"{option} was {value!r}; expected one of {', '.join(known)}")
    return value


def _families(names: list[str], kinds: list[str]) -> tuple[str, ...]:
    """Patterns over model families; the kind alone means all of them."""
    if "all" in names or (not names and "family" in kinds):
        return ("*",)
    for name in names:
        _one_of("--family", name, ("all", *MEMBERS))
    return tuple(names)


def _seed(seed: int | None, tier: str) -> int:
    """A fixed seed makes the outcome of a tier a fact; the nightly tier is there to look elsewhere."""
    if seed is not None:
        return seed
    return secrets.randbits(32) if tier == "nightly" else 0


def _conduct(source: SubjectSource, plan: Plan, jobs: int, expected: Path | None) -> Report:
    read: Callable[[Capabilities], ExpectedFailures] | None = None
    if expected is not None:
        file = expected

        def read(capabilities: Capabilities) -> ExpectedFailures:
            return read_expected_failures(file, subject=capabilities.name)

    with work_progress() as bar:
        task = bar.add_task("smoke stage", total=None)
        failed = 0

        def advance(result: CheckResult, done: int, total: int) -> None:
            nonlocal failed
            failed += result.outcome is Outcome.FAILED
            bar.update(task, completed=done, total=total, description=f"checks, {failed} failed")

        return conduct(source, plan, jobs=jobs, expected=read, progress=advance)


def _print(report: Report) -> None:
    print_report(report, PlainConsole())


def _print_list(plan: Plan) -> None:
    PlainConsole().print(check_table(plan.select()))


def _print_faults(tier: str, jobs: int) -> int:
    with work_progress() as bar:
        task = bar.add_task("faults", total=None)

        def advance(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        console = PlainConsole() if sys.stdout.isatty() else PlainConsole(width=140)
        clean = print_kill_table(console, tier=Tier(tier), jobs=jobs, progress=advance)
    return 0 if clean else CHECK_FAILED


def _require_writable(*reports: Path | None) -> None:
    if not any(reports):
        return
    from eredu.files.aside_file import require_writable  # noqa: PLC0415 (only where a report is written)

    for file in reports:
        if file is not None:
            require_writable(file)


def _write(report: Report, *, junit: Path | None, as_json: Path | None, html: Path | None) -> None:
    from eredu.files.aside_file import AsideFile, write_json, write_text  # noqa: PLC0415 (likewise)

    if junit is not None:
        with AsideFile(junit) as file:
            junit_tree(report).write(file, encoding="utf-8", xml_declaration=True)
    if as_json is not None:
        write_json(as_json, report_record(report), indent=1)
    if html is not None:
        write_text(html, html_page(report))
