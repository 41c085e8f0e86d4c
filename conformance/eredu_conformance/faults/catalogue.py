"""The whole catalogue, in one order."""

from __future__ import annotations

from eredu_conformance.faults import (
    acceptance,
    bonus,
    caches,
    draft_law,
    endings,
    groups,
    history,
    loading,
    lookahead,
    noise,
    order,
    seeds,
)
from eredu_conformance.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *draft_law.FAULTS,
    *noise.FAULTS,
    *seeds.FAULTS,
    *acceptance.FAULTS,
    *bonus.FAULTS,
    *caches.FAULTS,
    *endings.FAULTS,
    *history.FAULTS,
    *lookahead.FAULTS,
    *order.FAULTS,
    *groups.FAULTS,
    *loading.FAULTS,
)
"""Every planted fault."""


def fault_named(name: str) -> Fault:
    """The fault of that name. Raises `KeyError` with the nearest names where there is none."""
    for fault in FAULTS:
        if fault.name == name:
            return fault
    near = [fault.name for fault in FAULTS if set(name.split("-")) & set(fault.name.split("-"))]
    raise KeyError(f"no planted fault is called {name!r}; near names: {', '.join(near[:5]) or 'none'}")
