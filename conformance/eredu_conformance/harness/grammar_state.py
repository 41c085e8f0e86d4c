"""The reference's grammars as the values that `eredu` takes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eredu.contract.constraint import Constraint
from eredu.contract.errors import ConstraintError
from eredu_reference import constraint as reference
from eredu_reference.errors import ConstraintError as ReferenceConstraintError


@dataclass(frozen=True)
class GrammarState:
    """Implements `eredu.contract.constraint.Constraint` over a grammar of the reference.

    Attributes:
        grammar: The grammar.
        state: Where in it the output stands.
    """

    grammar: reference.Constraint
    state: Hashable

    @classmethod
    def before(cls, grammar: reference.Constraint) -> GrammarState:
        """The state before the first output token."""
        return cls(grammar, grammar.start)

    @property
    def complete(self) -> bool:
        """Whether the tokens so far are a whole sentence."""
        return self.grammar.complete(self.state)

    def mask(self) -> NDArray[np.bool_]:
        """Allowed ids, shape (vocabulary,)."""
        return self.grammar.mask(self.state)

    def advance(self, token: int) -> GrammarState:
        """State after `token`. Raises `ConstraintError` if the mask forbids it."""
        try:
            return replace(self, state=self.grammar.advance(self.state, token))
        except ReferenceConstraintError as error:
            raise ConstraintError(str(error)) from error


@dataclass(frozen=True)
class GrammarTrack:
    """The grammar over a block: its state behind 0, 1, 2, … tokens.

    A drafter that ignores the mask may propose what the grammar forbids. Behind such a token there is no state; its
    probability is 0, so that no row behind it is ever read.

    Attributes:
        states: The states; None without a grammar and behind a forbidden token.
    """

    states: tuple[Constraint | None, ...]

    @property
    def last(self) -> Constraint | None:
        """State behind the last token."""
        return self.states[-1]

    @property
    def at_end(self) -> bool:
        """Whether the grammar is complete there."""
        return self.last is not None and self.last.complete

    def mask(self, index: int) -> NDArray[np.bool_] | None:
        """Mask of the row behind `index` tokens; None where nothing restricts it."""
        state = self.states[index]
        return None if state is None or state.complete else state.mask()

    def advance(self, token: int) -> GrammarTrack:
        """The track with one more token."""
        state = self.last
        legal = state is not None and not state.complete and bool(state.mask()[token])
        return GrammarTrack((*self.states, state.advance(token) if state is not None and legal else None))

    def tail(self, start: int, count: int) -> GrammarTrack:
        """The track over `count` tokens from number `start` on."""
        return GrammarTrack(self.states[start : start + count + 1])
