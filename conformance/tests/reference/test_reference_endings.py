"""Where outputs end, how rounds are clipped, what text is visible, and the grammar."""

from __future__ import annotations

from typing import Any

import pytest

from eredu_reference import ConstraintError, DfaConstraint, FinishReason, Request, RequestError, TextOptions
from eredu_reference.adaptive import Adaptive, observe_branch
from eredu_reference.clipping import Limits, budget_of, plan_branch
from eredu_reference.constraint import DEAD, mask_of, state_after
from eredu_reference.terminal import Budget, walk
from eredu_reference.text import publish_text, visible_text

WIDE = {
    "requested": 4,
    "capability": 9,
    "remaining": 99,
    "target_context": 99,
    "drafter_context": 99,
    "committed": 10,
}


@pytest.mark.parametrize(
    ("changes", "count", "length", "planned"),
    [
        ({}, 4, 5, 5),
        ({}, 4, 2, 2),
        ({}, 0, 5, 0),
        ({"remaining": 8}, 4, 5, 3),
        ({"remaining": 7}, 4, 5, 2),
        ({"remaining": 6}, 4, 5, 0),
        ({"remaining": 5}, 4, 5, 0),
        ({"drafter_context": 15}, 4, 5, 2),
    ],
)
def test_branch_plan_is_the_next_clip_and_the_guess(changes: Any, count: Any, length: Any, planned: Any) -> None:
    assert plan_branch(Limits(**{**WIDE, **changes}), count, length) == planned


def test_budget_is_the_smaller_of_caller_and_context() -> None:
    request = Request(prompt=(0, 1, 2), max_tokens=5)
    assert budget_of(request, 100) == (5, False)
    assert budget_of(request, 7) == (5, False)
    assert budget_of(request, 6) == (4, True)
    assert budget_of(request, 3) == (1, True)
    with pytest.raises(RequestError, match="shorten"):
        budget_of(request, 2)


GRAMMAR = DfaConstraint(4, {(0, 0): 1, (1, 1): 1, (1, 3): 2}, frozenset({2}))


def finish_of(output: Any, **changes: Any) -> Any:
    request = Request(prompt=(0,), max_tokens=9, **changes)
    start = None if request.constraint is None else 0
    done = walk(request, (), start, tuple(output), Budget(4, FinishReason.LENGTH))
    return done.emitted, done.finish


def test_walk_names_the_first_reason_that_holds() -> None:
    assert finish_of((1, 2)) == ((1, 2), None)
    assert finish_of((1, 2, 1, 1, 1)) == ((1, 2, 1, 1), FinishReason.LENGTH)
    assert finish_of((1, 2, 3), eos_ids={2}) == ((1, 2), FinishReason.EOS)
    assert finish_of((1, 1, 1, 2), eos_ids={2}) == ((1, 1, 1, 2), FinishReason.EOS)
    assert finish_of((1, 2, 3), eos_ids={2}, stop_sequences=((1, 2),)) == ((1, 2), FinishReason.STOP)
    assert finish_of((0, 3, 1), constraint=GRAMMAR, eos_ids={3}) == ((0, 3), FinishReason.GRAMMAR)
    assert finish_of((0, 3), constraint=GRAMMAR, stop_sequences=((3,),)) == ((0, 3), FinishReason.STOP)


def test_stop_sequence_spans_rounds() -> None:
    request = Request(prompt=(0,), max_tokens=9, stop_sequences=((1, 2, 3),))
    budget = Budget(9, FinishReason.LENGTH)
    for split in range(4):
        output = (0, 1, 2, 3, 4)
        done = walk(request, output[:split], None, output[split:], budget)
        assert (output[:split] + done.emitted, done.finish) == ((0, 1, 2, 3), FinishReason.STOP)


def test_grammar_states_are_values() -> None:
    assert state_after(GRAMMAR, 0, (0, 1, 1)) == 1
    assert state_after(GRAMMAR, 0, (2,)) == DEAD
    assert state_after(GRAMMAR, 0, (2, 0, 1)) == DEAD
    mask = mask_of(GRAMMAR, 1)
    assert mask is not None
    assert mask.tolist() == [False, True, False, True]
    assert mask_of(GRAMMAR, 2) is None
    with pytest.raises(ConstraintError, match="forbids id 2"):
        GRAMMAR.advance(0, 2)


TEXT = TextOptions(vocabulary=(b"a", b"b", "é".encode()[:1], "é".encode()[1:], b"ab"), stop_strings=("ba", "éa"))


@pytest.mark.parametrize(
    ("ids", "open_text", "final_text"),
    [
        ((0, 0), "aa", "aa"),
        ((0, 1), "a", "ab"),
        ((0, 1, 0), "a", "a"),
        ((0, 4, 0), "aa", "aa"),
        ((0, 2), "a", "a\ufffd"),
        ((0, 2, 3), "a", "aé"),
        ((2, 3, 0), "", ""),
        ((3, 0), "\ufffda", "\ufffda"),
    ],
)
def test_visible_text(ids: Any, open_text: Any, final_text: Any) -> None:
    request = Request(prompt=(0,), max_tokens=9, text=TEXT)
    assert visible_text(request, ids, finished=False) == open_text
    assert visible_text(request, ids, finished=True) == final_text


def test_text_hides_end_and_stop_ids() -> None:
    request = Request(prompt=(0,), max_tokens=9, text=TEXT, eos_ids=frozenset({1}), stop_sequences=((0, 4),))
    assert visible_text(request, (4, 1), finished=True) == "ab"[:2]
    assert visible_text(request, (0, 0, 4), finished=True) == "a"
    assert visible_text(request, (0, 0), finished=False) == "a"


def test_deltas_do_not_depend_on_the_chunks() -> None:
    """Every way to cut an output into rounds shows the same text, each delta behind the last."""
    request = Request(prompt=(0,), max_tokens=20, text=TEXT, stop_sequences=((4, 4),))
    ids = (0, 2, 3, 1, 2, 0, 1, 1, 4, 2, 3, 3, 4, 1)
    whole = visible_text(request, ids, finished=True)
    for cuts in range(2 ** (len(ids) - 1)):
        if cuts % 37:
            continue
        shown, before = "", 0
        for end in [i for i in range(1, len(ids)) if cuts >> (i - 1) & 1] + [len(ids)]:
            shown += publish_text(request, ids[:before], ids[:end], finished=end == len(ids))
            before = end
        assert shown == whole


def test_adaptive_window_tumbles_and_is_for_good() -> None:
    switch = Adaptive(2)
    switch = observe_branch(switch, 3, promoted=True, reused=2)
    assert (switch.resolved, switch.reused, switch.wasted) == (1, 2, 0)
    switch = observe_branch(switch, 2, promoted=False, reused=0)
    assert (switch.enabled, switch.resolved, switch.wasted) == (True, 0, 0)
    switch = observe_branch(switch, 3, promoted=True, reused=2)
    switch = observe_branch(switch, 3, promoted=False, reused=0)
    assert not switch.enabled
    assert not observe_branch(Adaptive(1), 1, promoted=True, reused=0).enabled
    assert observe_branch(Adaptive(None), 9, promoted=False, reused=0) == Adaptive(None)
