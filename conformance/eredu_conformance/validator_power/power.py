"""Power: how many tokens a planted fault emits before the evidence rejects it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Protocol

import numpy as np

from eredu_conformance.validator_power.designs import DESIGNS, UNSEEN, PowerDesign
from eredu_reference import ReferenceFailure
from eredu_validation.evidence import Emission, Evidence, Terms, columns_of
from eredu_validation.evidence.folding import FOLDED_CELLS

BATCH = 1024
"""Tokens taken at once."""

RACE: dict[str, int] = {
    "lenient-acceptance": 39_000,
    "bonus-from-the-draft": 10_000,
    "residual-is-the-target": 800,
    "residual-of-absolute-difference": 148,
    "draft-truncated-q-full": 308,
    "bonus-from-the-row-before": 5_400,
    "greedy-draft-called-sampled": 105,
    "replacement-is-coin": 2_700,
    "one-coin-a-block": 9_300,
}
"""Median tokens of the best of eight tests, at 1e-6, in the race on six such tables by which the method was chosen."""


HEADING = """\
| fault | tokens to reject at 1e-6, median | best test of the race | best bet |
| --- | --- | --- | --- |"""


class Emitting(Protocol):
    """A subject."""

    def emissions(self, seed: int) -> Iterator[Emission]:
        """Emitted tokens, without end."""
        ...


@dataclass(frozen=True, kw_only=True)
class PowerRow:
    """What one fault took.

    Attributes:
        fault: Its name.
        tokens: Tokens until the rejection on each pair of tables; None where none came.
        errors: On how many pairs the engine itself failed before a rejection, which is loud enough.
        looks_like: What the evidence said of the first pair.
    """

    fault: str
    tokens: tuple[int | None, ...]
    errors: int
    looks_like: str

    @property
    def median(self) -> float | None:
        """Median tokens; None where a pair was not rejected."""
        found = [count for count in self.tokens if count is not None]
        return median(found) if len(found) == len(self.tokens) and found else None

    @property
    def told(self) -> str:
        """The median in words."""
        tokens = "not rejected" if self.median is None else f"{self.median:,.0f}"
        return f"{tokens} (the engine fails)" if self.errors else tokens


def measure(fault: str, design: PowerDesign, *, alpha: float = 1e-6, tolerance: float = 0.0) -> PowerRow:
    """Run a fault on each pair of tables of its design until it is rejected."""
    runs = ((seed, design.subject(fault, seed)) for seed in design.seeds)
    return run_to_rejection(fault, runs, Terms(alpha=alpha, tolerance=tolerance), design.most_tokens)


def run_to_rejection(
    fault: str, runs: Iterable[tuple[int, Emitting]], terms: Terms, most_tokens: int, *, cells: int = FOLDED_CELLS
) -> PowerRow:
    """Run subjects, each with its seed, until they are rejected or the engine itself fails."""
    tokens: list[int | None] = []
    errors, stories = 0, []
    for seed, subject in runs:
        evidence = Evidence(terms, seeds=(seed,))
        try:
            tokens.append(tokens_to_reject(subject, evidence, seed, most_tokens, cells=cells))
        except ReferenceFailure:
            errors += 1
            tokens.append(evidence.tally.tokens)
        stories.append(best_bet(evidence))
    return PowerRow(fault=fault, tokens=tuple(tokens), errors=errors, looks_like=stories[0])


def tokens_to_reject(
    subject: Emitting, evidence: Evidence, seed: int, most_tokens: int, *, cells: int = FOLDED_CELLS
) -> int | None:
    """Feed a subject's tokens until the evidence crosses its threshold; None if it does not."""
    stream = subject.emissions(seed)
    while evidence.crossing is None and evidence.tally.tokens < most_tokens:
        batch = list(islice(stream, min(BATCH, max(64, evidence.tally.tokens // 4))))
        evidence.take(columns_of(batch, cells=cells))
    return None if evidence.crossing is None else evidence.crossing.token


def best_bet(evidence: Evidence) -> str:
    """Name of the bet that holds most of the wealth."""
    if not evidence.tally.tokens:
        return "the engine fails"
    share = evidence.tally.log_wealth + evidence.portfolio.log_weights
    return evidence.portfolio.names[int(np.argmax(share))]


def power_table(
    faults: Iterable[str] | None = None, *, progress: Callable[[PowerRow], None] | None = None
) -> list[PowerRow]:
    """Rows of all faults that sampling can show, or of the given ones."""
    rows = []
    for name in faults if faults is not None else [name for name in DESIGNS if name not in UNSEEN]:
        rows.append(measure(name, DESIGNS[name]))
        if progress is not None:
            progress(rows[-1])
    return rows


def markdown(row: PowerRow) -> str:
    """One line of the table in the room's README."""
    raced = RACE.get(row.fault)
    best = "" if raced is None else f"{raced:,}"
    return f"| {row.fault} | {row.told} | {best} | {row.looks_like} |"
