"""Power on a real checkpoint: how many tokens a planted fault emits before the evidence rejects it.

Beside them stands how far off its law is, in total variation and in nats, where that can be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from eredu_conformance.validator_power.checkpoint_designs import CHECKPOINT_DESIGNS, CheckpointDesign
from eredu_conformance.validator_power.checkpoint_subject import Checkpoint
from eredu_conformance.validator_power.designs import DESIGNS, UNSEEN
from eredu_conformance.validator_power.enumerated import enumerated_distance
from eredu_conformance.validator_power.laws import Distance, distance
from eredu_conformance.validator_power.power import RACE, best_bet, tokens_to_reject
from eredu_reference import PIECES, ReferenceFailure
from eredu_validation.evidence import Emission, Evidence, Terms

TOLERANCE = 1e-5
"""Rows are read twice, in float32, by other forward passes."""
SHOWN = tuple(name for name in CHECKPOINT_DESIGNS if name not in UNSEEN)
"""Faults that are rejected on the checkpoint."""
MEASURED = 600
"""Tokens of a right engine over whose places a law's distance is averaged."""


@dataclass(frozen=True, kw_only=True)
class CheckpointRow:
    """What one fault took on the checkpoint.

    Attributes:
        fault: Its name.
        tokens: Tokens until the rejection in each run; None where none came.
        errors: In how many runs the engine itself failed before a rejection.
        looks_like: What the evidence said in the first run.
        distance: How far its law is off; None where it cannot be written down.
        allowed: Twice the tokens that the race's best test would take at this divergence; None where it did not race.
    """

    fault: str
    tokens: tuple[int | None, ...]
    errors: int
    looks_like: str
    distance: Distance | None
    allowed: float | None

    @property
    def median(self) -> float | None:
        """Median tokens; None where a run was not rejected."""
        found = [count for count in self.tokens if count is not None]
        return median(found) if len(found) == len(self.tokens) else None


def right_text(checkpoint: Checkpoint) -> list[Emission]:
    """Tokens of the right engine."""
    return list(islice(CheckpointDesign().subject_of(PIECES, checkpoint).emissions(0), MEASURED))


def measure_checkpoint(
    fault: str,
    checkpoint: Checkpoint,
    design: CheckpointDesign | None = None,
    *,
    alpha: float = 1e-6,
    right: Sequence[Emission] = (),
) -> CheckpointRow:
    """Run a fault until it is rejected, once for each seed of its design.

    Where a right text is given, how far it is off is measured too: along that text, or enumerated if the design asks
    for one chat.
    """
    chosen = design or CHECKPOINT_DESIGNS[fault]
    subject, tokens, errors, stories = chosen.subject(fault, checkpoint), [], 0, []
    for seed in chosen.seeds:
        evidence = Evidence(Terms(alpha=alpha, tolerance=TOLERANCE), seeds=(seed,))
        try:
            tokens.append(tokens_to_reject(subject, evidence, seed, chosen.most_tokens, cells=chosen.cells))
        except ReferenceFailure:
            errors += 1
            tokens.append(evidence.tally.tokens)
        stories.append(best_bet(evidence))
    off = None
    if right:
        off = distance(fault, right) if chosen.chat is None else enumerated_distance(subject)
    return CheckpointRow(
        fault=fault,
        tokens=tuple(tokens),
        errors=errors,
        looks_like=stories[0],
        distance=off,
        allowed=None
        if off is None or fault not in RACE
        else 2 * RACE[fault] * table_divergence(fault) / off.divergence,
    )


def table_divergence(fault: str) -> float:
    """Nats a token by which a fault is off on the tables that it was raced on, averaged over them."""
    design = DESIGNS[fault]
    found = [distance(fault, islice(design.subject(fault, seed).emissions(seed), MEASURED)) for seed in design.seeds]
    return sum(each.divergence for each in found if each is not None) / len(found)


def checkpoint_table(
    faults: Iterable[str] | None = None, *, progress: Callable[[CheckpointRow], None] | None = None
) -> list[CheckpointRow]:
    """Rows of all faults that sampling can show, or of the given ones."""
    checkpoint = Checkpoint.load()
    right, rows = right_text(checkpoint), []
    for name in faults if faults is not None else SHOWN:
        rows.append(measure_checkpoint(name, checkpoint, right=right))
        if progress is not None:
            progress(rows[-1])
    return rows


HEADING = """\
| fault | tokens to reject at 1e-6 | TV a token | nats a token | twice the race's best, at these nats | best bet |
| --- | --- | --- | --- | --- | --- |"""


def checkpoint_line(row: CheckpointRow) -> str:
    """One line of the table in the room's README."""
    middle = row.median
    tokens = "not rejected" if middle is None else f"{middle:,.0f}"
    if row.errors:
        tokens = f"{tokens} (the engine fails)"
    off = ("", "") if row.distance is None else (f"{row.distance.variation:.3f}", f"{row.distance.divergence:.2g}")
    allowed = "" if row.allowed is None else f"{row.allowed:,.0f}"
    return f"| {row.fault} | {tokens} | {off[0]} | {off[1]} | {allowed} | {row.looks_like} |"
