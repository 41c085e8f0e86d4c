"""The kill table: every planted fault of the reference, and the check that kills it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eredu_conformance.checks.check import Tier
from eredu_conformance.faults import FAULTS, Fault
from eredu_conformance.runner.kills import Kill, false_alarms, kills

ALARM_SEEDS = {Tier.QUICK: 1, Tier.STANDARD: 5, Tier.NIGHTLY: 200}
"""Seeds by which no killer may accuse the right engine, by tier."""

WIDE = 130
"""Columns of a terminal from which on the rules have room."""

Progress = Callable[[str, int, int], None]
"""Told what was done, how much is done, and how much there is."""


def print_kill_table(
    console: Console,
    *,
    tier: Tier = Tier.STANDARD,
    faults: Sequence[Fault] = FAULTS,
    jobs: int = 1,
    progress: Progress = lambda *_: None,
) -> bool:
    """Judge every fault, print the table; return whether all are killed and the right engine is never accused.

    Args:
        console: Where to print.
        tier: How many seeds the right engine must pass.
        faults: Which faults.
        jobs: Processes.
        progress: Told of each fault and each seed.
    """
    seeds = range(ALARM_SEEDS[tier])
    total, done = len(faults) + len(seeds), 0

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        progress(name, done, total)

    found = kills(faults, jobs=jobs, progress=lambda kill: advance(kill.fault))
    alarms: list[str] = []
    for seed in seeds:
        alarms += false_alarms((seed,))
        advance(f"the right engine, seed {seed}")
    console.print(kill_table(faults, found, with_rules=console.width >= WIDE))
    missed = [kill for kill in found if kill.killer is None]
    for told in [f"{kill.fault} lives: {kill.told}" for kill in missed] + [f"false alarm: {alarm}" for alarm in alarms]:
        console.print(told, soft_wrap=True, markup=False)
    scripted = sum(kill.is_scripted for kill in found)
    console.print(
        f"{len(found) - len(missed)} of {len(found)} faults killed as declared, "
        f"{len(found) - len(missed) - scripted} by checks and {scripted} by scripted experiments; "
        f"{len(alarms)} false alarms over {len(seeds)} seeds of the right engine",
        soft_wrap=True,
    )
    return not missed and not alarms


def kill_table(faults: Sequence[Fault], found: Sequence[Kill], *, with_rules: bool = True) -> Table:
    """One line a fault: its rule, if there is room, and the check that killed it."""
    table = Table(title="kill table", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("fault", no_wrap=with_rules, overflow="fold")
    if with_rules:
        table.add_column("rule", no_wrap=True, style="dim")
    table.add_column("killed by", overflow="fold")
    for fault, kill in zip(faults, found, strict=True):
        names = [fault.name, fault.rule] if with_rules else [fault.name]
        killer = Text(kill.killer or "LIVES", style="green" if kill.killer else "bold red")
        table.add_row(*names, killer)
    return table
