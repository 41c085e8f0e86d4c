"""Faults planted in eredu itself, each at a seam of its own, and the test that must notice."""

from eredu_conformance.faults.engine import device, groups, lookahead, sampling, schedule
from eredu_conformance.faults.engine.fault import EngineFault

ENGINE_FAULTS: tuple[EngineFault, ...] = (
    *schedule.FAULTS,
    *groups.FAULTS,
    *lookahead.FAULTS,
    *sampling.FAULTS,
    *device.FAULTS,
)
"""Every fault that is planted in eredu."""

__all__ = ["ENGINE_FAULTS", "EngineFault"]
