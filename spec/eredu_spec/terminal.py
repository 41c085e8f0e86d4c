"""Where an output ends: the conditions a token can meet, and the walk over a round's tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eredu_spec.grammar import Grammar
from eredu_spec.sites import obeys

Tokens = tuple[int, ...]

STOP = 1
GRAMMAR = 2
EOS = 4
ORDER = ((STOP, "stop"), (GRAMMAR, "grammar"), (EOS, "eos"))
"""Conditions in the order in which they name the finish; the budget comes last."""


@obeys("terminal.stop-sequences-span-rounds", "terminal.eos-when-emitted")
@dataclass(frozen=True, slots=True, kw_only=True)
class Terminals:
    """What can end an output, besides its budget.

    Attributes:
        eos: Ids that end the output.
        stops: Sequences of ids that end the output.
        grammar: The grammar that the output follows, or None.
    """

    eos: frozenset[int] = frozenset()
    stops: tuple[Tokens, ...] = ()
    grammar: Grammar | None = None

    def conditions(self, output: Tokens, token: int) -> int:
        """Which conditions `token` meets behind `output`, as a mask of `STOP`, `GRAMMAR` and `EOS`."""
        whole = (*output, token)
        met = EOS if token in self.eos else 0
        if any(whole[-len(stop) :] == stop for stop in self.stops):
            met |= STOP
        if self.grammar is not None and self.grammar.is_complete(whole):
            met |= GRAMMAR
        return met


@obeys("terminal.order", "terminal.budget-counts-tokens")
def finish_of(met: int, count: int, budget: int, budget_reason: str) -> str | None:
    """Why an output of `count` tokens ends at a token that meets the conditions `met`; None if it goes on."""
    for condition, name in ORDER:
        if met & condition:
            return name
    return budget_reason if count >= budget else None


@obeys("terminal.nothing-behind")
def walk(
    output: Tokens, candidates: Tokens, conditions: Callable[[Tokens, int], int], budget: int, budget_reason: str
) -> tuple[Tokens, str | None]:
    """Emit candidates one by one up to the first terminal one; return those emitted and why the output ends."""
    for count, token in enumerate(candidates, start=1):
        before = output + candidates[: count - 1]
        finish = finish_of(conditions(before, token), len(before) + 1, budget, budget_reason)
        if finish is not None:
            return candidates[:count], finish
    return candidates, None
