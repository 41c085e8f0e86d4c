"""Checks by family: eredu on the zoo's checkpoint of each model family, from the inside.

A run has them only where it names families (`--family`), for they judge eredu's loading and caches rather than an
engine's rules. Each stands on both sides of the family's boundary: a window, an index, the reach of a convolution.
"""

from __future__ import annotations

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.family import layouts, path, state


def checks() -> tuple[Check, ...]:
    """Family by family: its state, its path, its layouts."""
    return (*state.checks(), *path.checks(), *layouts.checks())
