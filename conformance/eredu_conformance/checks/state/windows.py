"""Sliding windows: blocks that cross the window's size at every offset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from eredu_conformance.checks.check import Check, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.forced_pairs import PARTS, forced_pair
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Feature, Request, RunOptions

WINDOWS = {"window-4": Tier.QUICK, "window-6": Tier.STANDARD, "window-16": Tier.STANDARD}
DEPTHS = {0: Tier.STANDARD, 1: Tier.STANDARD, 3: Tier.QUICK, 5: Tier.STANDARD}
BEYOND = 8
"""Output tokens behind the window's size."""


def checks() -> Iterator[Check]:
    """One check for each windowed pair and K."""
    for name, tier in WINDOWS.items():
        for depth, other in DEPTHS.items():
            yield Check(
                id=f"state.window-crossing/{name}/k{depth}",
                rule="rollback.exact-state" if depth else "draft.empty-block-is-plain",
                tier=max(tier, other, key=lambda item: item.rank),
                about=f"Blocks with K = {depth} that reach past the window at every offset leave what it would hold.",
                needs=Needs(proposals=depth, features=frozenset({Feature.SLIDING_WINDOW})),
                run=partial(_run, name, depth),
            )


def _run(name: str, depth: int, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    compared = offsets = 0
    for part in (None, *PARTS[:2]) if depth else (None,):
        pair = forced_pair(name, part)
        window = pair.target.window
        assert window is not None, f"{name} has no window"
        longest = pair.prompt + pair.target.greedy_path(pair.prompt, window)
        first = max(1, window - depth - 1)
        prompts = [longest[:length] for length in range(first, min(window + 2, len(longest)) + 1)]
        requests = tuple(
            Request(prompt=prompt, options=RunOptions(max_tokens=window - first + BEYOND, max_proposals=depth))
            for prompt in prompts
        )
        offsets += len(requests)
        trial = Trial(pair=pair, requests=requests)
        compared += require_equal(
            session, trial, greedy_due, what=f"decoding past the window with K = {depth} and the law's argmax"
        )
    return Observation(text=f"{offsets} prompts around the window's size, {compared} tokens equal")
