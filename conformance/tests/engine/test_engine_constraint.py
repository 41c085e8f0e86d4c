"""Grammars: a small automaton constrains target and assistant alike, and its end cuts a block where plain text ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.contract.errors import ConstraintError
from eredu.contract.options import MtpSchedulerOptions
from eredu.results import GenerationResult

Decode = Callable[..., GenerationResult]
VOCABULARY = 40
RULES: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.2, "acceptance": "coupled"},
]


@dataclass(frozen=True)
class Automaton:
    """`length` tokens, each of the residue modulo 5 that the state allows, then a token below 10 that completes."""

    length: int
    seen: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        return len(self.seen) == self.length + 1

    def mask(self) -> NDArray[np.bool_]:
        ids = np.arange(VOCABULARY)
        if len(self.seen) == self.length:
            return ids < 10
        return np.asarray(ids % 5 != (sum(self.seen) + len(self.seen)) % 5)

    def advance(self, token: int) -> Automaton:
        if self.complete or not self.mask()[token]:
            raise ConstraintError(f"{token} is forbidden after {self.seen}")
        return replace(self, seen=(*self.seen, token))


@dataclass(frozen=True)
class Barren:
    """Allows nothing after `length` tokens, and is not complete."""

    length: int

    @property
    def complete(self) -> bool:
        return False

    def mask(self) -> NDArray[np.bool_]:
        return np.full(VOCABULARY, self.length > 0)

    def advance(self, token: int) -> Barren:
        return Barren(self.length - 1)


# rule: constraints.mask-on-every-row, constraints.drafting-stops-at-completion
@pytest.mark.parametrize("settings", RULES, ids=["greedy", "coupled"])
@pytest.mark.parametrize("length", [0, 1, 3, 6, 11])
@pytest.mark.parametrize("count", [2, 5])
def test_grammars_give_the_plain_tokens_and_end_with_them(
    llama: Any, decode: Decode, settings: dict[str, Any], length: int, count: int
) -> None:
    plain = decode(llama, plain=True, constraint=Automaton(length), **settings)
    assert str(plain.finish) == "grammar"
    assert len(plain.tokens) == length + 1
    state = Automaton(length)
    for token in plain.tokens:
        state = state.advance(token)
    for lookahead in (False, True):
        schedule = MtpSchedulerOptions(lookahead=lookahead, adaptive_lookahead=False)
        result = decode(llama, constraint=Automaton(length), max_proposals=count, schedule=schedule, **settings)
        assert (result.tokens, result.finish) == (plain.tokens, plain.finish)
        result.statistics.check()


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_sampled_text_obeys_the_grammar_and_drafts_stop_at_its_end(llama: Any, decode: Decode, rule: str) -> None:
    clips: set[str] = set()
    for seed in range(6):
        result = decode(llama, constraint=Automaton(6), temperature=1.0, acceptance=rule, seed=seed, max_proposals=5)
        state = Automaton(6)
        for token in result.tokens:
            state = state.advance(token)
        assert state.complete
        clips |= {reason for reason, _ in result.statistics.clipped}
    assert "grammar" in clips


# rule: verify.invalid-is-error
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("length", [0, 2, 3])
def test_a_grammar_that_allows_nothing_is_an_error(llama: Any, decode: Decode, *, plain: bool, length: int) -> None:
    with pytest.raises(ConstraintError, match="allows no token"):
        decode(llama, plain=plain, constraint=Barren(length))
