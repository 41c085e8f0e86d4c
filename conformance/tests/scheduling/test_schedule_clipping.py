"""How many proposals a round carries and how long a branch plans to be: against the reference, and by example."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.executor import ExecutorTraits
from eredu.contract.statistics import ClipReason
from eredu.scheduling.clipping import clip_depth
from eredu.scheduling.lookahead import planned_length
from eredu_reference import clipping as reference

NO_LIMIT = 10**6
small = st.integers(0, 9)


def traits(*, cap: int = 64, target: int = 4096, drafter: int | None = None, exact: bool = True) -> ExecutorTraits:
    return ExecutorTraits(
        vocabulary_size=4, max_proposals=cap, target_context=target, drafter_context=drafter, exact_promotion=exact
    )


# rule: draft.clip, capability.validated-cap
@pytest.mark.parametrize(
    ("requested", "limits", "committed", "remaining", "count", "reason"),
    [
        (4, traits(), 10, 99, 4, ClipReason.REQUEST),
        (0, traits(cap=0), 10, 1, 0, ClipReason.REQUEST),
        (4, traits(cap=3), 10, 99, 3, ClipReason.CAPABILITY),
        (4, traits(cap=0), 10, 99, 0, ClipReason.CAPABILITY),
        (4, traits(), 10, 4, 3, ClipReason.BUDGET),
        (4, traits(), 10, 1, 0, ClipReason.BUDGET),
        (4, traits(target=12), 10, 99, 2, ClipReason.TARGET_CONTEXT),
        (4, traits(target=10), 10, 99, 0, ClipReason.TARGET_CONTEXT),
        (4, traits(drafter=12), 10, 99, 3, ClipReason.DRAFTER_CONTEXT),
        (4, traits(drafter=10), 10, 99, 1, ClipReason.DRAFTER_CONTEXT),
        (4, traits(drafter=9), 10, 99, 0, ClipReason.DRAFTER_CONTEXT),
        (4, traits(drafter=2), 10, 99, 0, ClipReason.DRAFTER_CONTEXT),
        (3, traits(cap=3, target=13, drafter=12), 10, 4, 3, ClipReason.REQUEST),
        (4, traits(cap=3, target=13, drafter=12), 10, 4, 3, ClipReason.CAPABILITY),
        (4, traits(target=13, drafter=12), 10, 4, 3, ClipReason.BUDGET),
        (4, traits(target=13, drafter=12), 10, 9, 3, ClipReason.TARGET_CONTEXT),
    ],
)
def test_the_tightest_limit_binds_and_ties_name_the_first(
    requested: int, limits: ExecutorTraits, committed: int, remaining: int, count: int, reason: ClipReason
) -> None:
    depth = clip_depth(requested, limits, committed, remaining)
    assert (depth.count, depth.reason) == (count, reason)


# rule: draft.clip, lookahead.planned-length
@given(
    requested=small,
    cap=small,
    remaining=st.integers(1, 9),
    target=st.integers(1, 20),
    drafter=st.none() | st.integers(1, 20),
    committed=st.integers(1, 12),
    branch_length=st.integers(2, 10),
    depth=small,
)
def test_clip_and_plan_are_those_of_the_reference(
    requested: int,
    cap: int,
    remaining: int,
    target: int,
    drafter: int | None,
    committed: int,
    branch_length: int,
    depth: int,
) -> None:
    limits = traits(cap=cap, target=target, drafter=drafter)
    theirs = reference.Limits(
        requested=requested,
        capability=cap,
        remaining=remaining,
        target_context=target,
        drafter_context=NO_LIMIT if drafter is None else drafter,
        committed=committed,
    )
    mine, other = clip_depth(requested, limits, committed, remaining), reference.clip(theirs)
    assert (mine.count, mine.reason.value) == (other.count, other.reason.value)
    planned = planned_length(depth, branch_length, requested, limits, committed, remaining)
    assert planned == reference.plan_branch(theirs, depth, branch_length)


@pytest.mark.parametrize(
    ("committed", "requested", "expected"),
    [(1, 4, (0, "hidden-state")), (2, 4, (4, "request")), (1, 0, (0, "request")), (9, 4, (4, "request"))],
)
def test_a_first_hidden_state_is_waited_for(committed: int, requested: int, expected: tuple[int, str]) -> None:
    needy = replace(traits(), needs_hidden=True)
    depth = clip_depth(requested, needy, committed, 99)
    assert (depth.count, depth.reason.value) == expected
    assert clip_depth(requested, traits(), committed, 99).count == requested


def test_a_round_never_feeds_or_emits_too_much() -> None:
    for committed in range(1, 9):
        for remaining in range(1, 9):
            for target in range(committed, 12):
                for drafter in range(1, 12):
                    k = clip_depth(4, traits(target=target, drafter=drafter), committed, remaining).count
                    assert k + 1 <= remaining
                    assert committed - 1 + k + 1 <= target
                    assert k == 0 or committed + k - 1 <= drafter


@pytest.mark.parametrize(
    ("depth", "limit", "remaining", "planned"),
    [
        (0, 5, 99, 0),
        (4, 5, 99, 5),
        (4, 2, 99, 2),
        (4, 9, 99, 5),
        (4, 5, 5, 0),
        (4, 5, 6, 0),
        (4, 5, 7, 2),
        (4, 5, 8, 3),
    ],
)
def test_a_branch_plans_for_the_round_that_full_acceptance_would_lead_to(
    depth: int, limit: int, remaining: int, planned: int
) -> None:
    assert planned_length(depth, limit, 4, traits(), 10, remaining) == planned
    assert planned_length(depth, limit, 4, traits(exact=False), 10, remaining) == 0
