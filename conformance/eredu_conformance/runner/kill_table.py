"""The kill matrix as a table: every planted fault against every oracle."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eredu_conformance.checks.check import Tier
from eredu_conformance.faults import FAULTS, Fault, KillRow, false_alarms, kill_matrix
from eredu_conformance.oracles import ORACLES

ALARM_SEEDS = {Tier.QUICK: 20, Tier.STANDARD: 200, Tier.NIGHTLY: 2000}
"""Seeds by which the right engine must not be accused, by tier."""

WIDE = 130
"""Columns of a terminal from which on the rules have room."""

Progress = Callable[[str, int, int], None]
"""Told what was done, how much is done, and how much there is."""


def print_kill_matrix(
    console: Console,
    *,
    tier: Tier = Tier.STANDARD,
    faults: Sequence[Fault] = FAULTS,
    jobs: int = 1,
    progress: Progress = lambda *_: None,
) -> bool:
    """Judge every fault, print the matrix; return whether all is as declared and the right engine never accused.

    Args:
        console: Where to print.
        tier: The quick tier asks the declared oracles alone; the others ask all, for the reader.
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

    rows = kill_matrix(
        faults, declared_only=tier is Tier.QUICK, jobs=jobs, progress=lambda row: advance(row.fault.name)
    )
    alarms = []
    for seed, told in enumerate(_alarms(seeds, jobs)):
        alarms += told
        advance(f"the right engine, seed {seed}")
    console.print(kill_table(rows, with_rules=console.width >= WIDE))
    missed = [row for row in rows if not row.killed_as_declared]
    for row in missed:
        console.print(
            f"{row.fault.name} is not killed by {row.fault.killer}, as it declares: "
            f"{row.verdicts[row.fault.killer].evidence}",
            soft_wrap=True,
            markup=False,
        )
    for alarm in alarms:
        console.print(f"false alarm: {alarm}", soft_wrap=True, markup=False)
    console.print(
        f"{len(rows) - len(missed)} of {len(rows)} faults killed by the oracle that they declare; "
        f"{len(alarms)} false alarms over {len(seeds)} seeds of the right engine",
        soft_wrap=True,
    )
    return not missed and not alarms


def _alarms(seeds: Sequence[int], jobs: int) -> Iterator[list[str]]:
    """False alarms of each seed."""
    if jobs == 1:
        yield from map(_alarms_of, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_alarms_of, seeds)


def _alarms_of(seed: int) -> list[str]:
    return [f"{name}, seed {at}: {verdict.evidence}" for name, at, verdict in false_alarms((seed,))]


def kill_table(rows: Sequence[KillRow], *, with_rules: bool = True) -> Table:
    """One line a fault: its rule, if there is room, and which oracles notice; the declared one in capitals."""
    table = Table(title="kill matrix", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("fault", no_wrap=with_rules, overflow="fold")
    if with_rules:
        table.add_column("rule", no_wrap=True, style="dim")
    for name in ORACLES:
        table.add_column(name, justify="center", no_wrap=True)
    for row in rows:
        names = [row.fault.name, row.fault.rule] if with_rules else [row.fault.name]
        table.add_row(*names, *(_cell(row, name) for name in ORACLES))
    return table


def _cell(row: KillRow, oracle: str) -> Text:
    if oracle not in row.verdicts:
        return Text("")
    killed = row.verdicts[oracle].killed
    if row.fault.killer == oracle:
        return Text("KILLED" if killed else "MISSED", style="bold green" if killed else "bold red")
    return Text("killed" if killed else "·", style="dim")
