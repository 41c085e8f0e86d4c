"""Where an output ends: the walk over a round's tokens, in the one order that every path uses.

After each token: stop sequence (of ids, then of text), grammar complete, end-of-sequence id, token budget. The first
that holds ends the output there, names the reason, and hides everything behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from eredu.contract.constraint import Constraint


class FinishReason(StrEnum):
    """Why an output ended."""

    STOP = "stop"
    GRAMMAR = "grammar"
    EOS = "eos"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"
    FAILED = "failed"


class OutputText(Protocol):
    """Visible text of an output as an immutable value: streaming, append-only, cut at a stop string."""

    def advance(self, token: int) -> tuple[Self, bool]:
        """State after `token`, and whether a stop string was completed by it."""

    def take(self) -> tuple[Self, str]:
        """The text that became certain since the last take."""

    def finish(self) -> tuple[Self, str]:
        """The text held back so far, at the end of the output; empty after a stop string."""


@dataclass(frozen=True, slots=True)
class StopSequences:
    """Matches stop sequences of token ids against the end of the output.

    Attributes:
        sequences: The sequences, each at least one id long.
        tail: The last ids of the output, as many as the longest sequence needs.
    """

    sequences: tuple[tuple[int, ...], ...] = ()
    tail: tuple[int, ...] = ()

    def advance(self, token: int) -> StopSequences:
        """State after `token`."""
        if not self.sequences:
            return self
        return replace(self, tail=(*self.tail, token)[-max(map(len, self.sequences)) :])

    # rule: terminal.stop-sequences-span-rounds
    @property
    def matched(self) -> int:
        """Length of the longest sequence that ends the output; 0 if none does."""
        return max((len(stop) for stop in self.sequences if self.tail[-len(stop) :] == stop), default=0)

    @property
    def begun(self) -> int:
        """Length of the longest end of the output that may yet become a sequence; 0 if none may."""
        lengths = (size for stop in self.sequences for size in range(1, len(stop)) if self.tail[-size:] == stop[:size])
        return max(lengths, default=0)


@dataclass(frozen=True, slots=True)
class TerminalWatch:
    """Everything that can end one output, before its next token.

    Attributes:
        remaining: Tokens left of `max_tokens`.
        room: Tokens that the target's context leaves room for; the last one is never an input, and needs none.
        eos_ids: Ids that end the output; they have no text.
        stops: Stop sequences of ids; they have no text either.
        text: Visible text with its stop strings, or None.
        held: The last ids of the output, as long as they may belong to a stop sequence; `text` is behind by them.
        constraint: The grammar, or None.
    """

    remaining: int
    room: int
    eos_ids: frozenset[int]
    stops: StopSequences = StopSequences()
    text: OutputText | None = None
    held: tuple[int, ...] = ()
    constraint: Constraint | None = None

    @property
    def budget(self) -> int:
        """Tokens that the output may still grow by."""
        return min(self.remaining, self.room)

    # rule: terminal.order, terminal.eos-when-emitted, constraints.state-from-history
    def advance(self, token: int) -> tuple[TerminalWatch, FinishReason | None]:
        """State after one token, and the reason to end there."""
        stops = self.stops.advance(token)
        text, held, cut = self._advance_text(token, stops)
        constraint = None if self.constraint is None else self.constraint.advance(token)
        after = TerminalWatch(
            self.remaining - 1, self.room - 1, self.eos_ids, stops, text=text, held=held, constraint=constraint
        )
        if stops.matched or cut:
            return after, FinishReason.STOP
        if constraint is not None and constraint.complete:
            return after, FinishReason.GRAMMAR
        if token in self.eos_ids:
            return after, FinishReason.EOS
        if after.remaining == 0:
            return after, FinishReason.LENGTH
        return after, FinishReason.CONTEXT if after.room == 0 else None

    def _advance_text(self, token: int, stops: StopSequences) -> tuple[OutputText | None, tuple[int, ...], bool]:
        """Text and held ids after `token`, and whether a stop string was completed by it."""
        if self.text is None:
            return None, (), False
        waiting = (*self.held, token)
        text, cut = self._read(self.text, waiting)
        if stops.matched:
            text, _ = self._read(self.text, waiting[: -stops.matched])
            return text, (), cut
        if cut or stops.begun == 0:
            return text, (), cut
        text, _ = self._read(self.text, waiting[: -stops.begun])
        return text, waiting[-stops.begun :], False

    def _read(self, text: OutputText, tokens: Sequence[int]) -> tuple[OutputText, bool]:
        """Text after several ids, and whether the last of them completed a stop string."""
        cut = False
        for token in tokens:
            if token not in self.eos_ids:
                text, cut = text.advance(token)
        return text, cut

    def take_text(self, *, ended: bool) -> tuple[TerminalWatch, str]:
        """State and the text that became certain; with `ended`, also what was held back."""
        if self.text is None:
            return self, ""
        held = () if ended else self.held
        text, _ = self._read(self.text, self.held if ended else ())
        text, visible = text.take()
        if ended:
            text, rest = text.finish()
            visible += rest
        return replace(self, text=text, held=held), visible

    # rule: terminal.nothing-behind, terminal.eos-when-emitted
    def walk(self, tokens: Sequence[int]) -> Walk:
        """Walk a round's tokens up to the first terminal one."""
        watch = self
        for count, token in enumerate(tokens, start=1):
            watch, finish = watch.advance(token)
            if finish is not None:
                return Walk(tuple(tokens[:count]), watch, finish)
        return Walk(tuple(tokens), watch, None)


@dataclass(frozen=True, slots=True)
class Walk:
    """A round's emitted tokens, the state behind them, and why the output ends there, if it does."""

    emitted: tuple[int, ...]
    watch: TerminalWatch
    finish: FinishReason | None
