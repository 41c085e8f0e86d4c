"""The kill matrix: every fault against every oracle, and the correct engine against all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from eredu_conformance.faults.catalogue import FAULTS, fault_named
from eredu_conformance.faults.fault import Fault
from eredu_conformance.oracles import ORACLES, Verdict
from eredu_reference import PIECES

KILL_SEEDS = (0, 1, 2, 3)
"""Seeds by which each fault must be killed by its declared oracle. Fixed, so that a kill is a fact and not a chance."""

SURVEY_SEEDS = (0,)
"""Seeds by which the other oracles are asked, for the table only."""


@dataclass(frozen=True)
class KillRow:
    """One fault and what each oracle says of it.

    Attributes:
        fault: The fault.
        verdicts: Verdict by the name of the oracle.
        elapsed_s: Seconds by the name of the oracle.
    """

    fault: Fault
    verdicts: dict[str, Verdict]
    elapsed_s: dict[str, float]

    @property
    def killed_as_declared(self) -> bool:
        """Whether the declared oracle kills the fault."""
        return self.verdicts[self.fault.killer].killed


def kill_row(
    fault: Fault,
    oracles: Sequence[str] = tuple(ORACLES),
    seeds: Sequence[int] = KILL_SEEDS,
    survey: Sequence[int] = SURVEY_SEEDS,
) -> KillRow:
    """Judge one fault by some oracles, each on an engine of its own.

    Args:
        fault: The fault.
        oracles: Names of the oracles.
        seeds: Seeds for the declared oracle.
        survey: Seeds for the others.
    """
    verdicts, elapsed = dict[str, Verdict](), dict[str, float]()
    for name in oracles:
        begun = time.perf_counter()
        verdicts[name] = ORACLES[name](fault.engine(), seeds if name == fault.killer else survey)
        elapsed[name] = time.perf_counter() - begun
    return KillRow(fault, verdicts, elapsed)


def kill_matrix(
    faults: Sequence[Fault] = FAULTS,
    *,
    declared_only: bool = False,
    jobs: int = 1,
    progress: Callable[[KillRow], None] | None = None,
) -> list[KillRow]:
    """Judge every fault by every oracle.

    Args:
        faults: Which faults of the catalogue.
        declared_only: Whether each is judged by its declared oracle alone, which is what must hold; the others' columns
            are for the reader, and take most of the time.
        jobs: Processes.
        progress: Called with each row as it is done, in order.
    """
    names = [fault.name for fault in faults]
    work = partial(_judge_named, declared_only=declared_only)
    rows = []
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        for judged in map(work, names) if pool is None else pool.map(work, names):
            rows.append(KillRow(fault_named(judged[0]), judged[1], judged[2]))
            if progress is not None:
                progress(rows[-1])
    return rows


def _judge_named(name: str, *, declared_only: bool) -> tuple[str, dict[str, Verdict], dict[str, float]]:
    """Judge a fault by name: faults hold functions, which do not travel between processes."""
    fault = fault_named(name)
    row = kill_row(fault, (fault.killer,) if declared_only else tuple(ORACLES))
    return name, row.verdicts, row.elapsed_s


def false_alarms(seeds: Sequence[int]) -> Iterator[tuple[str, int, Verdict]]:
    """Every oracle and seed by which the correct engine is killed; there must be none.

    The path oracle, state, trace and address oracles are equalities and the law oracle is exact enumeration, so an
    alarm is a contradiction between the reference and an oracle, never bad luck.
    """
    for seed in seeds:
        for name, judge in ORACLES.items():
            verdict = judge(PIECES, (seed,))
            if verdict.killed:
                yield name, seed, verdict
