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


def test_a_drafter_that_promotes_nothing_exactly_plans_no_branch() -> None:
    assert planned_length(4, 5, 4, traits(), 10, 99) == 5
    assert planned_length(4, 5, 4, traits(exact=False), 10, 99) == 0
