"""What becomes of a branch, and when a request stops drafting them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.statistics import BranchOutcome, BranchResolution
from eredu.scheduling.lookahead import AdaptiveLookahead, resolve_branch
from eredu_reference import adaptive as reference

PROMOTED, DROPPED = BranchOutcome.PROMOTED, BranchOutcome.DROPPED


# rule: promotion.full-acceptance-and-equal-bonus, promotion.consume-one-reuse-the-rest, bonus.from-target
@pytest.mark.parametrize(
    ("drafted", "next_depth", "guess", "bonus", "expected"),
    [
        (5, 4, 1, 1, BranchResolution(PROMOTED, 5, 4, compared=True)),
        (5, 2, 1, 1, BranchResolution(PROMOTED, 5, 2, compared=True)),
        (3, 4, 1, 1, BranchResolution(PROMOTED, 3, 2, compared=True)),
        (1, 4, 1, 1, BranchResolution(PROMOTED, 1, 0, compared=True)),
        (5, 0, 1, 1, BranchResolution(PROMOTED, 5, 0, compared=True)),
        (5, 4, 1, 2, BranchResolution(DROPPED, 5, 0, compared=True)),
    ],
)
def test_a_branch_lives_only_on_its_own_guess(
    drafted: int, next_depth: int, guess: int, bonus: int, expected: BranchResolution
) -> None:
    resolved = resolve_branch(drafted, next_depth, guess, bonus)
    assert resolved == expected
    assert resolved.consumed == (expected.outcome is PROMOTED)


def observe(switch: AdaptiveLookahead, planned: int, branch: BranchResolution, times: int = 1) -> AdaptiveLookahead:
    for _ in range(times):
        switch = switch.observe(planned, branch)
    return switch


HIT = BranchResolution(PROMOTED, 3, 2, compared=True)
MISS = BranchResolution(DROPPED, 3, compared=True)


@pytest.mark.parametrize(
    ("hits", "misses", "enabled"),
    [(4, 0, True), (3, 2, True), (3, 3, False), (1, 1, False), (2, 1, True)],
)
def test_a_window_pays_while_planned_discards_do_not_outnumber_reuses(hits: int, misses: int, enabled: bool) -> None:
    switch = AdaptiveLookahead(hits + misses)
    switch = observe(observe(switch, 3, MISS, misses), 3, HIT, hits)
    assert switch.enabled is (2 * hits > 0 and 3 * misses <= 2 * hits)
    assert switch.enabled is enabled


def test_a_disabled_switch_stays_disabled() -> None:
    switch = observe(AdaptiveLookahead(1), 3, MISS)
    assert not observe(switch, 3, HIT, 9).enabled


# rule: adaptive.planned-not-drawn
def test_only_planned_lengths_count_against_a_dropped_branch() -> None:
    """How long a dropped branch got depends on draws that may be made again; the plan does not."""
    switch = AdaptiveLookahead(4)
    for drafted in range(1, 5):
        assert switch.observe(5, BranchResolution(DROPPED, drafted)) == switch.observe(5, MISS)


@given(
    window=st.none() | st.integers(1, 4),
    branches=st.lists(st.tuples(st.integers(2, 5), st.booleans(), st.integers(0, 4)), max_size=20),
)
def test_the_switch_is_that_of_the_reference(window: int | None, branches: list[tuple[int, bool, int]]) -> None:
    mine, other = AdaptiveLookahead(window), reference.Adaptive(window)
    for planned, promoted, longest in branches:
        reused = min(longest, planned - 1) if promoted else 0
        outcome = PROMOTED if promoted else DROPPED
        mine = mine.observe(planned, BranchResolution(outcome, planned, reused))
        other = reference.observe_branch(other, planned, promoted=promoted, reused=reused)
        assert (mine.enabled, mine.resolved, mine.reused, mine.discarded) == (
            other.enabled,
            other.resolved,
            other.reused,
            other.wasted,
        )
