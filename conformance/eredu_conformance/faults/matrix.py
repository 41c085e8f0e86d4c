"""The kill matrix: every fault against every oracle, and the correct engine against all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eredu_conformance.faults.catalogue import FAULTS
from eredu_conformance.faults.fault import Fault
from eredu_conformance.oracles import ORACLES, Verdict
from eredu_reference import PIECES

KILL_SEEDS = (0, 1, 2, 3)
"""Seeds by which each fault must be killed. Fixed, so that a kill is a fact and not a chance."""


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


def kill_row(fault: Fault, oracles: Sequence[str] = tuple(ORACLES), seeds: Sequence[int] = KILL_SEEDS) -> KillRow:
    """Judge one fault by some oracles, each on an engine of its own."""
    verdicts, elapsed = dict[str, Verdict](), dict[str, float]()
    for name in oracles:
        begun = time.perf_counter()
        verdicts[name] = ORACLES[name](fault.engine(), seeds)
        elapsed[name] = time.perf_counter() - begun
    return KillRow(fault, verdicts, elapsed)


def kill_matrix(
    faults: Sequence[Fault] = FAULTS,
    *,
    seeds: Sequence[int] = KILL_SEEDS,
    progress: Callable[[KillRow], None] | None = None,
) -> list[KillRow]:
    """Judge every fault by every oracle.

    Args:
        faults: Which faults.
        seeds: Seeds of the cases.
        progress: Called with each row as it is done.
    """
    rows = []
    for fault in faults:
        row = kill_row(fault, seeds=seeds)
        rows.append(row)
        if progress is not None:
            progress(row)
    return rows


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
