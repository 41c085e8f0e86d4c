"""Pairs whose draft has a shorter context than the target, so that an output outlives its drafts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from eredu_conformance.crafted import CheckpointPair, crafted_pair

SHORT_DRAFTS = ("table-near", "order-2")
DRAFT_CONTEXT = 12
"""Tokens that fit into the draft."""


@cache
def short_draft(name: str) -> CheckpointPair:
    """A crafted pair with its draft's context cut."""
    pair = crafted_pair(name)
    draft = replace(pair.draft, name=f"{pair.draft.name}-short", context_limit=DRAFT_CONTEXT)
    aim = f"{pair.aim}; the draft takes {DRAFT_CONTEXT} tokens"
    return CheckpointPair(f"{name}-short-draft", pair.target, draft, pair.prompt, aim)
