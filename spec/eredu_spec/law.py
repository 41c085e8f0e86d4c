"""The exact law of what is emitted, by forward propagation through the machine; and plain decoding's, without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from itertools import product
from math import prod
from typing import Any

from eredu_spec.phases import LIVE
from eredu_spec.progress import progress
from eredu_spec.request import Request, Settings
from eredu_spec.scope import Scope
from eredu_spec.sites import obeys
from eredu_spec.state import State
from eredu_spec.successors import successors
from eredu_spec.tables import Tables
from eredu_spec.terminal import finish_of

Tokens = tuple[int, ...]
Ending = tuple[Tokens, str]
"""The whole of an output, and why it ended."""

Law = dict[Ending, Fraction]
"""Probability by (output, finish)."""

JointLaw = dict[tuple[Ending, ...], Fraction]
"""Probability of how several requests end, in the order of their settings."""

ZERO, ONE = Fraction(0), Fraction(1)


class LawError(AssertionError):
    """A weight outside [0, 1], or weights of one state that do not sum to 1."""


@obeys("verify.same-law")
def speculative_law(settings: Settings) -> Law:
    """The law of output and finish of one request, alone, through every draw of the machine."""
    joint, _ = propagated(Scope(requests=(settings,), ring=True))
    return marginal(joint, 0)


@obeys("scheduling.group-changes-nothing")
def joint_law(scope: Scope) -> JointLaw:
    """The law of how the requests of a scope end together, which the ring schedules."""
    law, _ = propagated(scope)
    return law


def propagated(scope: Scope) -> tuple[JointLaw, int]:
    """The joint law, and the number of states it went through; equal states are merged.

    Raises `ValueError` where the ring does not say who acts: a choice has no probability.
    """
    if not scope.ring:
        raise ValueError("the scope leaves open who acts; a law needs ring=True")
    start = scope.start()
    mass: dict[State, Fraction] = defaultdict(lambda: ZERO, {start: ONE})
    queue = [(_rank(start), 0, start)]
    law: JointLaw = defaultdict(lambda: ZERO)
    states = 0
    while queue:
        _, _, state = heappop(queue)
        here, states = mass.pop(state), states + 1
        if all(request.phase not in LIVE for request in state):
            law[tuple((request.output, str(request.finish)) for request in _opened_first(state))] += here
            continue
        total = ZERO
        for rule, weight, after in successors(state, scope):
            if not 0 <= weight <= 1:
                raise LawError(f"weight {weight} of rule {rule} lies outside [0, 1]")
            if after not in mass:
                heappush(queue, (_rank(after), states + len(queue), after))
            mass[after] += here * weight
            total += weight
        if total != 1:
            told = ", ".join(f"{request.phase} with output {request.output}" for request in state)
            raise LawError(f"weights behind {told} sum to {total}")
    return dict(law), states


def marginal(joint: JointLaw, place: int) -> Law:
    """The law of one of the requests."""
    law: Law = defaultdict(lambda: ZERO)
    for endings, weight in joint.items():
        law[endings[place]] += weight
    return dict(law)


def independent(laws: Sequence[Law]) -> JointLaw:
    """The joint law of requests that have nothing to do with each other."""
    return {
        tuple(ending for ending, _ in parts): prod((weight for _, weight in parts), start=ONE)
        for parts in product(*(law.items() for law in laws))
    }


def _opened_first(state: State) -> list[Request]:
    return sorted(state, key=lambda request: request.settings.number)


def _rank(state: State) -> tuple[tuple[int, ...], ...]:
    """What every edge raises, so that a state is popped after all that lead to it."""
    return tuple(progress(request) for request in _opened_first(state))


@obeys("verify.same-law")
def plain_law(settings: Settings) -> Law:
    """The law of plain decoding, by its definition: one draw from the processed target row a token, until the end."""
    model = settings.model
    assert isinstance(model, Tables), "a law needs a model with rows"
    law: Law = {}
    open_outputs: list[tuple[Tokens, Fraction]] = [((), ONE)]
    while open_outputs:
        output, weight = open_outputs.pop()
        row = model.target_row(settings.prompt, output)
        if settings.rule == "greedy":
            row = tuple(Fraction(token == row.index(max(row))) for token in range(len(row)))
        for token, chance in enumerate(row):
            if chance == 0:
                continue
            longer = (*output, token)
            met = model.conditions(output, token)
            finish = finish_of(met, len(longer), settings.budget, settings.budget_reason)
            if finish is None:
                open_outputs.append((longer, weight * chance))
            else:
                law[longer, finish] = weight * chance
    return law


def total_variation(left: Mapping[Any, Fraction], right: Mapping[Any, Fraction]) -> Fraction:
    """Half the sum of absolute differences: 0 iff the laws are one."""
    keys = left.keys() | right.keys()
    return sum((abs(left.get(key, ZERO) - right.get(key, ZERO)) for key in keys), ZERO) / 2
