"""The kill matrix as a table: every planted fault against every oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eredu_conformance.faults import FAULTS, Fault, KillRow, false_alarms, kill_matrix
from eredu_conformance.oracles import ORACLES

ALARM_SEEDS = 200
"""Seeds by which the right engine must not be accused."""


def print_kill_matrix(
    console: Console,
    *,
    faults: Sequence[Fault] = FAULTS,
    alarm_seeds: int = ALARM_SEEDS,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> bool:
    """Judge every fault, print the matrix; return whether all is as declared and the right engine never accused.

    Args:
        console: Where to print.
        faults: Which faults.
        alarm_seeds: Seeds by which the right engine is judged.
        jobs: Processes.
        progress: Told what was done.
    """
    rows = kill_matrix(faults, jobs=jobs, progress=lambda row: progress(row.fault.name))
    alarms: list[str] = []
    with ProcessPoolExecutor(jobs) as pool:
        for seed, found in enumerate(pool.map(_alarms, range(alarm_seeds))):
            alarms += found
            progress(f"the right engine, seed {seed}")
    console.print(kill_table(rows))
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
        f"{len(alarms)} false alarms over {alarm_seeds} seeds of the right engine",
        soft_wrap=True,
    )
    return not missed and not alarms


def _alarms(seed: int) -> list[str]:
    return [f"{name}, seed {at}: {verdict.evidence}" for name, at, verdict in false_alarms((seed,))]


def kill_table(rows: Sequence[KillRow]) -> Table:
    """One line a fault: its rule, and which oracles notice; the declared one in capitals."""
    table = Table(title="kill matrix", title_justify="left")
    table.add_column("fault", no_wrap=True)
    table.add_column("rule", no_wrap=True, style="dim")
    for name in ORACLES:
        table.add_column(name, justify="center")
    for row in rows:
        table.add_row(row.fault.name, row.fault.rule, *(_cell(row, name) for name in ORACLES))
    return table


def _cell(row: KillRow, oracle: str) -> Text:
    killed, declared = row.verdicts[oracle].killed, row.fault.killer == oracle
    if declared:
        return Text("KILLED" if killed else "MISSED", style="bold green" if killed else "bold red")
    return Text("killed" if killed else "·", style="dim")
