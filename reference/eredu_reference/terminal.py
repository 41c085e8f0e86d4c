"""Where an output ends: the walk over a round's tokens, one at a time, in one order of checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from eredu_reference.constraint import State, is_complete, state_after
from eredu_reference.requests import Request
from eredu_reference.text import completed_stop_sequence, completed_stop_string


class FinishReason(StrEnum):
    """Why an output ended. Where one token gives several reasons, the first in this order is named."""

    STOP = "stop"
    GRAMMAR = "grammar"
    EOS = "eos"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Budget:
    """How long an output may become, and who says so."""

    tokens: int
    reason: FinishReason


@dataclass(frozen=True)
class Walk:
    """The tokens of a round that are emitted, and why the output ends with the last of them, if it does."""

    emitted: tuple[int, ...]
    finish: FinishReason | None


def terminal_reason(request: Request, output: Sequence[int], grammar: State, budget: Budget) -> FinishReason | None:
    """Why an output ends with its last token, or None.

    Args:
        request: Whose output it is.
        output: All output tokens, the last one included.
        grammar: State of the grammar behind them.
        budget: Length of the output at the most.
    """
    if completed_stop_sequence(request, output) or completed_stop_string(request.text, output):
        return FinishReason.STOP
    if is_complete(request.constraint, grammar):
        return FinishReason.GRAMMAR
    if output[-1] in request.eos_ids:
        return FinishReason.EOS
    return budget.reason if len(output) >= budget.tokens else None


def walk(
    request: Request, output: tuple[int, ...], grammar: State, candidates: tuple[int, ...], budget: Budget
) -> Walk:
    """Emit candidates up to the first that ends the output; nothing behind it is ever visible.

    Args:
        request: Whose output it is.
        output: Output tokens before the round.
        grammar: State of the grammar before the round.
        candidates: Accepted proposals, then the token of the target.
        budget: Length of the output at the most.
    """
    for count, _ in enumerate(candidates, start=1):
        emitted = candidates[:count]
        state = state_after(request.constraint, grammar, emitted)
        finish = terminal_reason(request, output + emitted, state, budget)
        if finish is not None:
            return Walk(emitted, finish)
    return Walk(candidates, None)
