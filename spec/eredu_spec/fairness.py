"""What happens in the end: whether every fair schedule comes to a state in which something holds.

A schedule is (weakly) fair if no request that could act from some point on for ever is passed over for ever. A
property fails on a fair schedule in two ways only: in a state without successors, or on a cycle in which each request
acts or cannot act now and then. The search is generic, so that tests can show it both ways on systems of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from eredu_spec.phases import LIVE
from eredu_spec.scope import Scope
from eredu_spec.sites import obeys
from eredu_spec.state import State, moved
from eredu_spec.successors import successors

Node = TypeVar("Node", bound=Hashable)
Turns = Callable[[Node], Iterable[tuple[int, Node]]]
"""The turns that may be taken in a state: who acts, and the state behind it."""


@obeys("scheduling.every-request-ends")
def unfinished(scope: Scope) -> frozenset[State] | None:
    """States in which a fair schedule of the scope can stay for ever with a live request; None if there are none."""

    def is_done(state: State) -> bool:
        return not any(request.phase in LIVE for request in state)

    return fair_avoidance(scope.start(), lambda state: _turns(state, scope), is_done)


def _turns(state: State, scope: Scope) -> Iterator[tuple[int, State]]:
    for _, _, after in successors(state, scope):
        for request, _ in moved(state, after):
            yield request.settings.number, after


def fair_avoidance(start: Node, turns: Turns[Node], holds: Callable[[Node], bool]) -> frozenset[Node] | None:
    """States in which a fair schedule can stay for ever without meeting one where `holds`; None if there are none."""
    for component in _components(start, turns, holds):
        taken = [(actor, after) for node in component for actor, after in turns(node)]
        if not taken:
            return component
        inside = {actor for actor, after in taken if after in component}
        always = set.intersection(*({actor for actor, _ in turns(node)} for node in component))
        is_cycle = len(component) > 1 or bool(inside)
        if is_cycle and always <= inside:
            return component
    return None


def _components(start: Node, turns: Turns[Node], holds: Callable[[Node], bool]) -> Iterator[frozenset[Node]]:
    """Strongly connected components of the states met before `holds`, by Tarjan's algorithm without recursion."""
    numbers: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    on_path: set[Node] = set()
    calls: list[tuple[Node, Iterator[tuple[int, Node]]]] = []

    def visit(node: Node) -> None:
        numbers[node] = lowest[node] = len(numbers)
        path.append(node)
        on_path.add(node)
        calls.append((node, iter(turns(node))))

    if not holds(start):
        visit(start)
    while calls:
        node, remaining = calls[-1]
        following = next((after for _, after in remaining if not holds(after)), None)
        if following is not None:
            if following not in numbers:
                visit(following)
            elif following in on_path:
                lowest[node] = min(lowest[node], numbers[following])
            continue
        calls.pop()
        if calls:
            lowest[calls[-1][0]] = min(lowest[calls[-1][0]], lowest[node])
        if lowest[node] == numbers[node]:
            component = {path.pop()}
            while node not in component:
                component.add(path.pop())
            on_path -= component
            yield frozenset(component)
