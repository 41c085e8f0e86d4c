"""The exact law of what is emitted, by forward propagation through the machine; and plain decoding's, without it."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from heapq import heappop, heappush

from eredu_spec.phases import is_live
from eredu_spec.scope import Scope
from eredu_spec.settings import Settings
from eredu_spec.sites import obeys
from eredu_spec.state import State
from eredu_spec.successors import successors
from eredu_spec.tables import Tables
from eredu_spec.terminal import finish_of

Tokens = tuple[int, ...]
Law = dict[tuple[Tokens, str], Fraction]
"""Probability by (output, finish)."""

ZERO, ONE = Fraction(0), Fraction(1)


class LawError(AssertionError):
    """A weight outside [0, 1], or weights of one state that do not sum to 1."""


@obeys("verify.same-law")
def speculative_law(settings: Settings) -> Law:
    """The law of output and finish of one request, alone, through every draw of the machine."""
    law, _ = propagated(settings)
    return law


def propagated(settings: Settings) -> tuple[Law, int]:
    """The law, and the number of states it went through; equal states are merged."""
    scope = Scope(requests=(settings,))
    mass: dict[State, Fraction] = defaultdict(lambda: ZERO, {scope.start(): ONE})
    queue = [(_rank(scope.start()), 0, scope.start())]
    law: dict[tuple[Tokens, str], Fraction] = defaultdict(lambda: ZERO)
    states = 0
    while queue:
        _, _, state = heappop(queue)
        here, states = mass.pop(state), states + 1
        (request,) = state
        if not is_live(request.phase):
            law[request.output, str(request.finish)] += here
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
            raise LawError(f"weights behind {request.phase.label} with output {request.output} sum to {total}")
    return dict(law), states


def _rank(state: State) -> tuple[int, int, int, int]:
    """A number that every step raises, so that a state is popped after all that lead to it."""
    (request,) = state
    if not is_live(request.phase):
        return request.settings.budget + 1, 0, 0, 0
    done = request.published if request.stage else len(request.output)
    return done, request.phase, request.stage, len(request.rows)


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


def total_variation(left: Law, right: Law) -> Fraction:
    """Half the sum of absolute differences: 0 iff the laws are one."""
    keys = left.keys() | right.keys()
    return sum((abs(left.get(key, ZERO) - right.get(key, ZERO)) for key in keys), ZERO) / 2
