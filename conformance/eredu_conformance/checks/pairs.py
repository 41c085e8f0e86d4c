"""Every pair that a check uses, by name: the crafted ones, those with forced errors, and the small ones of the laws."""

from __future__ import annotations

from functools import cache

from eredu_conformance.checks.forced_pairs import forced_pairs
from eredu_conformance.checks.law_pairs import law_pairs
from eredu_conformance.checks.short_drafts import SHORT_DRAFTS, short_draft
from eredu_conformance.crafted import CheckpointPair, CraftedCheckpoint, crafted_pairs


@cache
def every_pair() -> dict[str, CheckpointPair]:
    """All pairs by name."""
    short = [short_draft(name) for name in SHORT_DRAFTS]
    return {pair.name: pair for pair in (*crafted_pairs(), *forced_pairs(), *law_pairs().values(), *short)}


def every_checkpoint() -> tuple[CraftedCheckpoint, ...]:
    """Every checkpoint of these pairs once, by name."""
    found = {c.name: c for pair in every_pair().values() for c in (pair.target, pair.draft)}
    return tuple(found.values())
