"""Groups in the machine: who is in one, that it changes no law, that members end alone, and how a trace tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any

import pytest

from eredu_spec import successors as machine
from eredu_spec.company import fates
from eredu_spec.explorer import explore
from eredu_spec.law import independent, joint_law, marginal, plain_law, propagated, speculative_law, total_variation
from eredu_spec.phases import Phase
from eredu_spec.properties import violations
from eredu_spec.request import Request, Settings
from eredu_spec.scope import Scope
from eredu_spec.scopes import SCOPES, trio
from eredu_spec.sometimes import sometimes_of_groups, unseen
from eredu_spec.state import State, evolve, moved
from eredu_spec.successors import Edge, Group, groups, successors
from eredu_spec.trace import check
from eredu_spec.trace_writer import told, write

MakeSettings = Callable[..., Settings]
Event = dict[str, Any]
RULES = ("rejection", "block", "coupled", "greedy")


def quiet(scope: Scope, **changes: Any) -> Scope:
    """A scope whose environment leaves it alone."""
    return replace(scope, cancellations=False, callbacks=False, failures=False, **changes)


# ---- who is in a group -------------------------------------------------------------------------------------------


def ready(scope: Scope, *numbers: int) -> State:
    """A state of the scope in which the requests of these numbers are ready to submit."""
    return tuple(
        evolve(request, phase=Phase.READY_TO_SUBMIT) if request.settings.number in numbers else request
        for request in scope.start()
    )


def composed(scope: Scope, state: State, first: int) -> list[tuple[int, ...]]:
    found = groups(state, scope, next(request for request in state if request.settings.number == first))
    return [tuple(member.settings.number for member in group) for group in found]


# rule: scheduling.ring, scheduling.in-flight-bound
@pytest.mark.parametrize(
    ("bounds", "due"),
    [
        ({"max_in_flight": 3}, (0, 1, 2)),
        ({"max_in_flight": 2}, (0, 1)),
        ({"max_in_flight": 3, "max_group": 2}, (0, 1)),
        ({"max_in_flight": 3, "max_group": 1}, (0,)),
    ],
)
def test_the_ring_takes_everybody_who_is_ready_within_the_bounds(bounds: dict[str, int], due: tuple[int, ...]) -> None:
    scope = quiet(trio(), ring=True, **bounds)
    state = ready(scope, 0, 1, 2)
    assert composed(scope, state, 0) == [due]
    ((_, _, after),) = successors(state, scope)
    order = tuple(request.settings.number for request in after)
    assert order == (*(number for number in range(3) if number not in due), *due)


def test_who_is_not_ready_is_passed_over_and_keeps_its_place() -> None:
    scope = quiet(trio(), ring=True)
    ((_, _, after),) = successors(ready(scope, 0, 2), scope)[:1]
    assert [(request.settings.number, request.phase.value) for request in after] == [
        (1, "prefill"),
        (0, "verification-in-flight"),
        (2, "verification-in-flight"),
    ]


def test_without_the_ring_every_choice_is_a_group() -> None:
    scope = quiet(trio())
    state = ready(scope, 0, 1, 2)
    assert composed(scope, state, 0) == [(0,), (0, 1), (0, 2), (0, 1, 2)]
    assert composed(scope, state, 1) == [(1,), (1, 2)]
    assert len(successors(state, scope)) == 7
    in_flight = tuple(evolve(request, phase=Phase.VERIFICATION_IN_FLIGHT) for request in state[:1]) + state[1:]
    assert composed(replace(scope, max_in_flight=2), in_flight, 1) == [(1,)]
    assert composed(replace(scope, max_in_flight=1), in_flight, 1) == []


def test_every_member_may_fail_by_itself() -> None:
    scope = replace(quiet(trio(), ring=True, max_in_flight=2), failures=True)
    ends = {
        tuple(after.finish for _, after in moved(ready(scope, 0, 1), edge[2]))
        for edge in successors(ready(scope, 0, 1), scope)
    }
    assert ends == {(None, None), (None, "failed"), ("failed", None), ("failed", "failed")}


def test_a_group_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="max_group was 0"):
        Scope(requests=(), max_group=0)


# ---- exploration -------------------------------------------------------------------------------------------------


# rule: scheduling.group-changes-nothing, scheduling.members-end-alone, scheduling.ring
@pytest.mark.parametrize("bounds", [{}, {"max_in_flight": 2}, {"max_group": 2}])
def test_with_the_ring_groups_of_three_break_no_rule(bounds: dict[str, Any]) -> None:
    exploration = explore(replace(trio(), ring=True, **bounds))
    assert [str(violation) for violation in violations(exploration)] == []
    assert unseen(exploration) == []


def test_what_must_become_of_a_group_is_asked_of_the_shipped_scopes() -> None:
    wanted = sometimes_of_groups(SCOPES["standard"]()).keys()
    assert wanted == {
        "group of 2",
        "members with different accepted counts",
        "a member ends in flight and another goes on",
        "a member is cancelled in flight and another goes on",
        "a member fails at submission and another goes on",
        "a member fails in flight and another goes on",
    }
    assert sometimes_of_groups(SCOPES["trio"]()).keys() - wanted == {"group of 3"}
    assert sometimes_of_groups(SCOPES["small"]()) == {}


def test_fates_tell_the_accepted_counts_and_the_ends_of_every_member() -> None:
    found = set(fates(explore(quiet(trio(), ring=True))))
    assert {len(group) for group in found} == {2, 3}
    assert {fate.end for group in found for fate in group} == {"completed", "goes on"}
    assert all(fate.accepted is not None for group in found for fate in group)


# ---- planted mistakes --------------------------------------------------------------------------------------------


def alone_only(state: State, scope: Scope, first: Request) -> Iterator[Group]:
    """Nobody joins, whoever is ready."""
    for group in groups(state, scope, first):
        yield group[:1]


def shorter_in_company(state: State, scope: Scope, group: Group) -> Iterator[Edge]:
    """In company a member's last proposal is left out."""
    for rule, weight, after in SUBMISSIONS(state, scope, group):
        cut = {
            request: evolve(request, rows=request.rows[:-1], block=request.block[:-1], frontier=request.frontier - 1)
            for _, request in moved(state, after)
            if len(group) > 1 and request.block
        }
        yield rule, weight, tuple(cut.get(request, request) for request in after)


def failed_together(state: State, scope: Scope, group: Group) -> Iterator[Edge]:
    """Where one member fails, all do."""
    for rule, weight, after in SUBMISSIONS(state, scope, group):
        ends = {request.finish for _, request in moved(state, after)}
        if len(ends) == 1:
            yield rule, weight, after


def cancelled_together(state: State, scope: Scope, action: Any, requests: Any) -> list[Edge]:
    """Whoever is in flight is cancelled with the first of them."""
    edges = EACH(state, scope, action, requests)
    for index, (rule, weight, after) in enumerate(edges):
        if rule == "cancellation.submitted-waits":
            gone = {
                request: scope.moves(action, request)[0][2]
                for request in after
                if request.phase is Phase.VERIFICATION_IN_FLIGHT
            }
            edges[index] = rule, weight, tuple(gone.get(request, request) for request in after)
    return edges


SUBMISSIONS, EACH = machine._submissions, machine._each


@pytest.mark.parametrize(
    ("name", "planted", "rule"),
    [
        ("groups", alone_only, "scheduling.ring"),
        ("_submissions", shorter_in_company, "scheduling.group-changes-nothing"),
        ("_each", cancelled_together, "scheduling.requests-independent"),
    ],
)
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, name: str, planted: Any, rule: str) -> None:
    monkeypatch.setattr(machine, name, planted)
    seen = {violation.rule: violation for violation in violations(explore(replace(trio(), ring=True)))}
    assert rule in seen
    assert len(seen[rule].trace.states) == len(seen[rule].trace.rules) + 1


def test_members_that_fail_together_leave_something_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_submissions", failed_together)
    assert "a member fails at submission and another goes on" in unseen(explore(replace(trio(), ring=True)))


# ---- laws --------------------------------------------------------------------------------------------------------


def pair(exact: MakeSettings, rule: str, seed: int = 0, **settings: Any) -> tuple[Settings, Settings]:
    """Two unlike requests over tables of their own."""
    chosen = {"vocabulary": 2, "order": 1, "requested": 1, "lookahead_depth": 2, **settings}
    return (
        exact(rule, seed=seed, max_tokens=4, number=0, **chosen),
        exact(rule, seed=seed + 1, max_tokens=3, number=1, prompt=(1,), **chosen),
    )


# rule: scheduling.group-changes-nothing
@pytest.mark.parametrize("lookahead", [None, 2])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(2))
def test_the_joint_law_of_a_group_is_the_product_of_the_laws_alone(
    exact: MakeSettings, rule: str, seed: int, lookahead: int | None
) -> None:
    requests = pair(exact, rule, seed, lookahead_depth=lookahead)
    joint = joint_law(Scope(requests=requests, ring=True))
    for place, settings in enumerate(requests):
        assert total_variation(marginal(joint, place), speculative_law(settings)) == 0
        assert total_variation(marginal(joint, place), plain_law(settings)) == 0
    assert total_variation(joint, independent([speculative_law(settings) for settings in requests])) == 0
    if lookahead is None:
        assert joint == joint_law(Scope(requests=requests, ring=True, max_group=1)), "groups change nothing"


def test_a_law_of_three_together(exact: MakeSettings) -> None:
    first, second = pair(exact, "rejection", lookahead_depth=None)
    requests = (replace(first, max_tokens=2), second, replace(second, number=2, prompt=(0,), max_tokens=2))
    joint = joint_law(Scope(requests=requests, ring=True))
    assert total_variation(joint, independent([plain_law(settings) for settings in requests])) == 0


def test_members_that_draw_alike_are_not_independent(exact: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two members that read one and the same draw have the right laws each, and the wrong joint law."""
    settings = exact("rejection", vocabulary=2, order=1, max_tokens=1, requested=0, lookahead_depth=None)
    twins = settings, replace(settings, number=1)

    def alike(state: State, scope: Scope) -> list[Edge]:
        edges = successors(state, scope)
        done = [request.output for request in state if request.output]
        if len(done) != 1 or len(edges) == 1:
            return edges
        same = [edge for edge in edges if any(r.resolution and r.resolution.emitted == done[0] for r in edge[2])]
        return [(rule, weight / sum(edge[1] for edge in same), after) for rule, weight, after in same]

    monkeypatch.setattr("eredu_spec.law.successors", alike)
    joint = joint_law(Scope(requests=twins, ring=True))
    alone = speculative_law(settings)
    assert marginal(joint, 0) == marginal(joint, 1) == alone
    assert total_variation(joint, independent([alone, alone])) > 0


def test_a_law_needs_the_ring(exact: MakeSettings) -> None:
    with pytest.raises(ValueError, match="needs ring=True"):
        propagated(Scope(requests=pair(exact, "rejection")))


# ---- traces ------------------------------------------------------------------------------------------------------


def grouped(*, failures: bool = False, **bounds: Any) -> list[Event]:
    """A trace of three requests; the first submission has as many members as it may."""
    scope = replace(told(trio()), ring=True, cancellations=False, failures=failures, **bounds)
    random = Random(1)

    def choose(edges: list[Edge]) -> Edge:
        failing = [edge for edge in edges if edge[0] == "scheduling.members-end-alone"]
        going_on = [edge for edge in edges if not edge[0].startswith(("commit.failure", "scheduling.members"))]
        return random.choice(failing or going_on)

    return write(scope, choose)


def largest(events: list[Event]) -> list[int]:
    """Places of the events of the largest group."""
    turns = [event["turn"] for event in events if event["event"] == "submit"]
    turn = max(turns, key=turns.count)
    return [i for i, event in enumerate(events) if event["event"] == "submit" and event["turn"] == turn]


def rule_of(events: list[Event], **options: Any) -> str | None:
    finding = check(events, **options)
    return None if finding is None else finding.rule


# rule: scheduling.ring, scheduling.turn-uninterrupted
@pytest.mark.parametrize("ring", [True, False])
def test_a_group_s_submissions_stand_in_one_turn(ring: bool) -> None:
    events = grouped()
    assert len(largest(events)) == 3
    assert check(events, ring=ring, is_complete=True) is None


def test_a_group_that_lacks_a_member_is_named() -> None:
    events = grouped()
    for place in largest(events):
        assert rule_of(events[:place] + events[place + 1 :]) == "scheduling.ring"


def test_a_group_in_another_order_is_named_where_there_is_a_ring() -> None:
    for order in permutations(largest(grouped())):
        events = grouped()
        told = [events[place] for place in order]
        for place, event in zip(sorted(order), told, strict=True):
            events[place] = event
        assert rule_of(events, ring=False) is None
        assert rule_of(events) == (None if list(order) == sorted(order) else "scheduling.ring")


def test_a_group_in_two_turns_is_named() -> None:
    events = grouped()
    _, _, last = largest(events)
    later = [{**event, "turn": event["turn"] + (index >= last)} for index, event in enumerate(events)]
    assert rule_of(later) == "scheduling.ring"
    assert rule_of(later, ring=False) is None


def test_a_member_too_many_is_named() -> None:
    events = grouped()
    for bound, rule in (("max_group", "scheduling.ring"), ("max_in_flight", "scheduling.in-flight-bound")):
        bounded = [{**event, bound: 2} if event["event"] == "open" else event for event in events]
        finding = check(bounded)
        assert finding is not None
        assert (finding.rule, finding.index) == (rule, largest(events)[2])


def test_an_engine_that_names_no_bound_submits_alone() -> None:
    unnamed = [{name: value for name, value in event.items() if name != "max_group"} for event in grouped()]
    assert rule_of(unnamed) == "scheduling.ring"
    assert rule_of([{**event, "max_group": 1} for event in grouped(max_group=1)]) is None


# rule: scheduling.members-end-alone
def test_a_member_that_failed_at_the_submission_is_closed_in_its_place() -> None:
    events = grouped(failures=True)
    closed = next(i for i, event in enumerate(events) if event["event"] == "close" and event["finish"] == "failed")
    assert check(events, is_complete=True) is None
    assert "submit" in {events[closed - 1]["event"], events[closed + 1]["event"]}
    assert rule_of(events[:closed] + events[closed + 1 :]) == "scheduling.ring"
    if events[closed + 1]["event"] == "submit":
        assert rule_of(events[: closed + 1] + events[closed + 2 :]) == "scheduling.ring"
