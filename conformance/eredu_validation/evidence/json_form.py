"""Evidence as JSON values and back: crossings, increments, batches. Integers stay exact, floats keep every bit.

JSON has no infinity, so an infinite ln M is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from eredu_validation.evidence.process import Crossing, Increment
from eredu_validation.evidence.tally import tally_of_record, tally_record
from eredu_validation.evidence.wave import Wave


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One line of a ledger.

    Attributes:
        increment: What it added.
        next_request: The first request that no line of the ledger has any token of.
        wave: The wave that its requests are of; None where none was planned.
    """

    increment: Increment
    next_request: int
    wave: Wave | None = None


def batch_record(batch: Batch) -> dict[str, Any]:
    """JSON-able."""
    increment = batch.increment
    return {
        "record": "batch",
        "tokens": increment.tokens,
        "log_e": finite(increment.log_e),
        "peak": finite(increment.peak),
        "crossing": None if increment.crossing is None else asdict(increment.crossing),
        "next_request": batch.next_request,
        "wave": None if batch.wave is None else asdict(batch.wave),
        "tally": tally_record(increment.tally),
    }


def batch_of(record: Mapping[str, Any]) -> Batch:
    """From JSON."""
    crossing = record["crossing"]
    increment = Increment(
        tally=tally_of_record(record["tally"]),
        tokens=record["tokens"],
        log_e=_number(record["log_e"]),
        peak=_number(record["peak"]),
        crossing=None if crossing is None else Crossing(**crossing),
    )
    wave = record["wave"]
    return Batch(increment=increment, next_request=record["next_request"], wave=None if wave is None else Wave(**wave))


def finite(value: float) -> float | None:
    """A number, or None for infinity."""
    return None if math.isinf(value) else value


def _number(value: float | None) -> float:
    return math.inf if value is None else value
