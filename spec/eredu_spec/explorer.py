"""Breadth-first exploration of a scope, and the shortest way to anything found in it.

Requests share nothing but bounds, so what one request does is checked once for each distinct step of it, however
many states of the others it occurs beside; the way to a violation is then read off the breadth-first tree.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from eredu_spec.request import Request
from eredu_spec.scope import Scope
from eredu_spec.state import State, moved
from eredu_spec.successors import successors

Tree = dict[State, State | None]
"""Each state with the state it was first reached from, in breadth-first order."""

STATES_MAX = 5_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One move of one request."""

    rule: str
    before: Request
    after: Request


@dataclass(frozen=True, slots=True)
class Edge:
    """One move of the whole: a step of one request, or one submission of several.

    Attributes:
        rule: The rule that leads there.
        before: The state in front of it.
        after: The state behind it.
        movers: Each request that moved, before and after.
    """

    rule: str
    before: State
    after: State
    movers: tuple[tuple[Request, Request], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A shortest way from the start: the rules of its edges, and the states it goes through."""

    rules: tuple[str, ...]
    states: tuple[State, ...]

    def __str__(self) -> str:
        return " → ".join(self.rules) or "(the start)"


@dataclass(frozen=True, slots=True, eq=False)
class Exploration:
    """Everything reachable in a scope.

    Attributes:
        scope: The scope.
        tree: The states.
        edge_count: Successors seen, all of them.
        elapsed_s: Processor seconds of the search itself.
    """

    scope: Scope
    tree: Tree
    edge_count: int
    elapsed_s: float

    @property
    def edges_per_s(self) -> float:
        """Speed of the search."""
        return self.edge_count / self.elapsed_s if self.elapsed_s else 0.0

    def requests(self) -> set[Request]:
        """Every distinct state of one request."""
        return {request for state in self.tree for request in state}

    def steps(self) -> Iterator[Step]:
        """Every distinct move of one request."""
        steps = {
            Step(rule, before, after)
            for known in self.scope.known_moves.values()
            for before, moves in known.items()
            for rule, _, after in moves
        }
        yield from steps

    def edges(self) -> Iterator[Edge]:
        """Every edge, nearest to the start first."""
        for state in self.tree:
            for rule, _, after in successors(state, self.scope):
                yield Edge(rule, state, after, tuple(moved(state, after)))

    def trace_to(self, wanted: Callable[[State], bool]) -> Trace:
        """A shortest way to a state. Raises `LookupError` if no reachable state is wanted."""
        for state in self.tree:
            if wanted(state):
                return self._trace(state)
        raise LookupError("no reachable state is the wanted one")

    def trace_to_step(self, wanted: Collection[Step]) -> Trace:
        """A shortest way that ends with one of the moves. Raises `LookupError` if no reachable state makes one."""
        moves = {(step.before, step.after) for step in wanted}
        return self.trace_to_edge(lambda edge: not moves.isdisjoint(edge.movers))

    def trace_to_edge(self, wanted: Callable[[Edge], bool]) -> Trace:
        """A shortest way that ends with an edge. Raises `LookupError` if no reachable state has one that is wanted."""
        for edge in self.edges():
            if wanted(edge):
                trace = self._trace(edge.before)
                return Trace((*trace.rules, edge.rule), (*trace.states, edge.after))
        raise LookupError("no reachable state has an edge that is wanted")

    def _trace(self, state: State) -> Trace:
        states = [state]
        while (parent := self.tree[states[-1]]) is not None:
            states.append(parent)
        states.reverse()
        rules = [
            next(rule for rule, _, after in successors(before, self.scope) if after == behind)
            for before, behind in pairwise(states)
        ]
        return Trace(tuple(rules), tuple(states))


def explore(scope: Scope, *, states_max: int = STATES_MAX) -> Exploration:
    """Reach every state of a scope. Raises `OverflowError` past `states_max` of them."""
    start = scope.start()
    tree: Tree = {start: None}
    todo, edges = [start], 0
    with _without_collection():
        started_s = time.process_time()
        while todo:
            found = []
            for state in todo:
                for _, _, after in successors(state, scope):
                    edges += 1
                    if after not in tree:
                        tree[after] = state
                        found.append(after)
            if len(tree) > states_max:
                raise OverflowError(f"more than {states_max} states; make the scope smaller or raise states_max")
            todo = found
        elapsed_s = time.process_time() - started_s
    return Exploration(scope, tree, edges, elapsed_s)


@contextmanager
def _without_collection() -> Iterator[None]:
    """States are tuples without cycles; the collector would walk millions of them again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
