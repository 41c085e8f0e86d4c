"""Evidence as JSON values and back: tallies, crossings, increments. Integers stay exact, floats keep every bit.

JSON has no infinity, so an infinite ln M is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from eredu_validation.evidence.process import Crossing, Increment
from eredu_validation.evidence.tally import StratumTally, Tally
from eredu_validation.evidence.transforms import Order


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One line of a ledger.

    Attributes:
        increment: What it added.
        next_request: The first request that no line of the ledger has any token of.
    """

    increment: Increment
    next_request: int


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
    return Batch(increment=increment, next_request=record["next_request"])


def tally_record(tally: Tally) -> dict[str, Any]:
    """JSON-able."""
    return {
        "strata": {
            name: {
                "tokens": stratum.tokens,
                "impossible": stratum.impossible,
                "log_wealth": list(stratum.log_wealth),
                "cells": {order.value: list(cells) for order, cells in stratum.cells.items()},
            }
            for name, stratum in tally.strata.items()
        },
        "pairs": {order.value: list(pairs) for order, pairs in tally.pairs.items()},
    }


def tally_of_record(record: Mapping[str, Any]) -> Tally:
    """From JSON."""
    return Tally(
        strata={
            name: StratumTally(
                tokens=stratum["tokens"],
                impossible=stratum["impossible"],
                log_wealth=tuple(stratum["log_wealth"]),
                cells={Order(order): tuple(cells) for order, cells in stratum["cells"].items()},
            )
            for name, stratum in record["strata"].items()
        },
        pairs={Order(order): tuple(pairs) for order, pairs in record["pairs"].items()},
    )


def finite(value: float) -> float | None:
    """A number, or None for infinity."""
    return None if math.isinf(value) else value


def _number(value: float | None) -> float:
    return math.inf if value is None else value
