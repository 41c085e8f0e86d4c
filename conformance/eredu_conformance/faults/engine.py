"""Faults of eredu's own: scheduler, randomness, placement and admission, which the reference does not have."""

from __future__ import annotations

from eredu_conformance.faults.edits import EngineFault

ENGINE_FAULTS: tuple[EngineFault, ...] = ()
"""Every fault that is planted in eredu."""
