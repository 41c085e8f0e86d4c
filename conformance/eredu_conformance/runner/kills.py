"""Kills: planted faults judged by the checks of the suite, as any subject is, and what they say of the right engine.

Everything runs in one process on crafted pairs that are written once. A failing check isn't shrunk: here only that it
fails counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from eredu_conformance.checks.check import Check, Tier
from eredu_conformance.checks.registry import all_checks
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.faults import FAULTS, Fault, fault_named
from eredu_conformance.oracles import EXPERIMENTS, Experiment, complaint_of
from eredu_conformance.runner.following import end_with_parent
from eredu_conformance.runner.judging import judge
from eredu_conformance.runner.result import Outcome
from eredu_conformance.subjects.reference import ReferenceSubject
from eredu_reference import PIECES, Pieces

Judge = Check | Experiment


@dataclass(frozen=True)
class Kill:
    """One fault before its declared killers.

    Attributes:
        fault: Its name.
        killer: Id of the first that killed it, or None.
        told: What that one said; of a fault that lives, what it was judged by.
        elapsed_s: Seconds.
    """

    fault: str
    killer: str | None
    told: str
    elapsed_s: float

    @property
    def is_scripted(self) -> bool:
        """Whether it took a scripted experiment."""
        return self.killer is not None and self.killer in EXPERIMENTS


def judges_named(pattern: str) -> tuple[Judge, ...]:
    """Checks and scripted experiments whose id matches a shell pattern, the cheapest tier first.

    Raises:
        KeyError: none does.
    """
    judges: list[Judge] = [*EXPERIMENTS.values(), *sorted(all_checks(), key=lambda check: check.tier.rank)]
    found = tuple(each for each in judges if fnmatchcase(each.id, pattern))
    if not found:
        raise KeyError(f"no check and no scripted experiment matches {pattern!r}; `eredu conformance --list` shows all")
    return found


def kill(fault: Fault) -> Kill:
    """Judge a fault by its declared killers, until one kills it."""
    begun = time.perf_counter()
    judges = judges_named(fault.killed_by)
    for each in judges:
        told = accusation(each, fault.engine())
        if told is not None:
            return Kill(fault.name, each.id, told, time.perf_counter() - begun)
    told = f"none of {len(judges)} that match {fault.killed_by} noticed anything"
    return Kill(fault.name, None, told, time.perf_counter() - begun)


def kills(
    faults: Sequence[Fault] = FAULTS, *, jobs: int = 1, progress: Callable[[Kill], None] | None = None
) -> list[Kill]:
    """Judge every fault by its declared killers.

    Args:
        faults: Which faults of the catalogue.
        jobs: Processes.
        progress: Called with each kill, in order.
    """
    found, names = [], [fault.name for fault in faults]
    context = get_context("spawn")
    workers = ProcessPoolExecutor(jobs, context, initializer=end_with_parent) if jobs > 1 else nullcontext()
    with workers as pool:
        for each in map(kill, faults) if pool is None else pool.map(_kill_named, names):
            found.append(each)
            if progress is not None:
                progress(each)
    return found


def _kill_named(name: str) -> Kill:
    """Judge a fault by name: faults hold functions, which do not travel between processes."""
    return kill(fault_named(name))


def noticed_by(fault: Fault, *, tier: Tier = Tier.QUICK) -> Iterator[str]:
    """Ids of everything in a tier that notices a fault, for a survey."""
    judges: list[Judge] = [*EXPERIMENTS.values(), *all_checks()]
    for each in judges:
        is_asked = isinstance(each, Experiment) or (tier.includes(each.tier) and each.family is None)
        if is_asked and accusation(each, fault.engine()) is not None:
            yield each.id


def false_alarms(seeds: Sequence[int]) -> Iterator[str]:
    """What the declared killers say against the right engine, for each seed; it must be nothing."""
    declared = {judge.id: judge for fault in FAULTS for judge in judges_named(fault.killed_by)[:1]}
    for seed in seeds:
        for name, each in declared.items():
            told = accusation(each, PIECES, seed)
            if told is not None:
                yield f"{name}, seed {seed}: {told}"


def accusation(judging: Judge, pieces: Pieces, seed: int = 0) -> str | None:
    """What a check or an experiment says against an engine; None if nothing, or if it does not concern it."""
    if isinstance(judging, Experiment):
        return complaint_of(judging, pieces)
    result = judge(judging, _session().with_subject(ReferenceSubject(pieces)), seed)
    return result.message if result.outcome is Outcome.FAILED else None


@cache
def _session() -> SubjectSession:
    """The session whose crafted pairs every engine of this process is asked about."""
    place = _place()
    subject = ReferenceSubject()
    return SubjectSession(subject, subject.start(), Path(place.name))


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """A directory that lives as long as the process."""
    return tempfile.TemporaryDirectory(prefix="eredu-faults-")
