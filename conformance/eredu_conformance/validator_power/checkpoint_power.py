"""Power on a real checkpoint: how many tokens a planted fault emits before the evidence rejects it.

Beside them stands how far off its law is, in total variation and in nats, where that can be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from eredu_conformance.validator_power.checkpoint_designs import CHECKPOINT_DESIGNS, CheckpointDesign
from eredu_conformance.validator_power.checkpoint_subject import Checkpoint
from eredu_conformance.validator_power.designs import DESIGNS, UNSEEN
from eredu_conformance.validator_power.enumerated import enumerated_distance
from eredu_conformance.validator_power.laws import Distance, distance
from eredu_conformance.validator_power.power import RACE, PowerRow, run_to_rejection
from eredu_reference import PIECES
from eredu_validation.evidence import Emission, Terms

TOLERANCE = 1e-5
"""Rows are read twice, in float32, by other forward passes."""
SHOWN = tuple(name for name in CHECKPOINT_DESIGNS if name not in UNSEEN)
"""Faults that are rejected on the checkpoint."""
MEASURED = 600
"""Tokens of a right engine over whose places a law's distance is averaged."""


@dataclass(frozen=True, kw_only=True)
class CheckpointRow(PowerRow):
    """What one fault took on the checkpoint.

    Attributes:
        distance: How far its law is off; None where it cannot be written down.
        allowed: Twice the tokens that the race's best test would take at this divergence; None where it did not race.
    """

    distance: Distance | None
    allowed: float | None


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
    subject = chosen.subject(fault, checkpoint)
    runs = ((seed, subject) for seed in chosen.seeds)
    terms = Terms(alpha=alpha, tolerance=TOLERANCE)
    row = run_to_rejection(fault, runs, terms, chosen.most_tokens, cells=chosen.cells)
    off = None
    if right:
        off = distance(fault, right) if chosen.chat is None else enumerated_distance(subject)
    allowed = 2 * RACE[fault] * table_divergence(fault) / off.divergence if off and fault in RACE else None
    return CheckpointRow(**vars(row), distance=off, allowed=allowed)


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
    off = ("", "") if row.distance is None else (f"{row.distance.variation:.3f}", f"{row.distance.divergence:.2g}")
    allowed = "" if row.allowed is None else f"{row.allowed:,.0f}"
    return f"| {row.fault} | {row.told} | {off[0]} | {off[1]} | {allowed} | {row.looks_like} |"
