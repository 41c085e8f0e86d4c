"""Where an output ends, in which order the reasons are asked, and what of it is visible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eredu.contract.errors import ConstraintError
from eredu.contract.terminal import FinishReason, StopSequences, TerminalWatch
from eredu.text.output import StreamingText
from eredu.text.pieces import Alphabet, TokenPieces
from eredu.text.vocabulary import Vocabulary
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_reference.constraint import DfaConstraint
from eredu_reference.requests import Request, TextOptions
from eredu_reference.terminal import Budget, terminal_reason
from eredu_reference.terminal import FinishReason as ReferenceReason
from eredu_reference.text import visible_text

ROOM = 4096
LETTERS = ("a", "b", "ab", "c")
PIECES = TokenPieces(Vocabulary(LETTERS), Alphabet.SENTENCEPIECE)


def grammar_ending_at(length: int, vocabulary: int = 8) -> GrammarState:
    """A grammar of any ids, whole after `length` of them."""
    edges = {(state, token): state + 1 for state in range(length) for token in range(vocabulary)}
    return GrammarState.before(DfaConstraint(vocabulary, edges, frozenset({length})))


def watch_ending_at(length: int, reasons: set[FinishReason]) -> TerminalWatch:
    """A watch over the ids 0, 1, 2, … whose token number `length` (from 1) gives all of `reasons`."""
    last = length - 1
    return TerminalWatch(
        remaining=length if FinishReason.LENGTH in reasons else 100,
        room=ROOM,
        eos_ids=frozenset({last}) if FinishReason.EOS in reasons else frozenset(),
        stops=StopSequences(((last,),) if FinishReason.STOP in reasons else ()),
        constraint=grammar_ending_at(length) if FinishReason.GRAMMAR in reasons else None,
    )


ORDER = [FinishReason.STOP, FinishReason.GRAMMAR, FinishReason.EOS, FinishReason.LENGTH]


# rule: terminal.order, terminal.nothing-behind
@pytest.mark.parametrize("length", range(1, 5))
@pytest.mark.parametrize("reasons", [set(c) for n in range(1, 5) for c in itertools.combinations(ORDER, n)])
def test_the_first_reason_in_order_names_the_end(length: int, reasons: set[FinishReason]) -> None:
    watch = watch_ending_at(length, reasons)
    walk = watch.walk(range(6))
    assert walk.emitted == tuple(range(length))
    assert walk.finish is next(reason for reason in ORDER if reason in reasons)
    assert walk.watch.remaining == watch.remaining - length


def test_a_walk_without_an_end_emits_everything_and_leaves_the_watch_as_it_was() -> None:
    watch = watch_ending_at(5, set(ORDER))
    before = TerminalWatch(
        watch.remaining, watch.room, watch.eos_ids, watch.stops, watch.text, watch.held, watch.constraint
    )
    walk = watch.walk((0, 1, 2))
    assert (walk.emitted, walk.finish) == ((0, 1, 2), None)
    assert watch == before
    assert walk.watch.walk((3, 4, 5)).finish is FinishReason.STOP


# rule: terminal.budget-counts-tokens
def test_the_context_names_its_own_budget() -> None:
    assert TerminalWatch(remaining=2, room=1, eos_ids=frozenset()).walk((7, 7)).finish is FinishReason.CONTEXT
    assert TerminalWatch(remaining=1, room=1, eos_ids=frozenset()).walk((7, 7)).finish is FinishReason.LENGTH


# rule: constraints.state-from-history
def test_a_forbidden_token_is_an_error() -> None:
    edges = {(0, 1): 1}
    watch = TerminalWatch(9, ROOM, frozenset(), constraint=GrammarState.before(DfaConstraint(3, edges, frozenset({1}))))
    with pytest.raises(ConstraintError, match="forbids id 2"):
        watch.walk((2,))


# rule: terminal.stop-sequences-span-rounds
@settings(max_examples=200)
@given(
    tokens=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    sequences=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), max_size=2).map(tuple),
    strings=st.lists(st.text("abc", min_size=1, max_size=3), max_size=2).map(tuple),
    eos=st.sets(st.integers(3, 3)).map(frozenset),
    rounds=st.lists(st.integers(1, 4), min_size=12, max_size=12),
)
def test_text_and_ends_are_those_of_the_reference_in_rounds_of_any_length(
    tokens: list[int],
    sequences: tuple[tuple[int, ...], ...],
    strings: tuple[str, ...],
    eos: frozenset[int],
    rounds: list[int],
) -> None:
    """Oracle: the reference derives text and ends from the whole output at once."""
    spelled = tuple(b"" if token in eos else piece.encode() for token, piece in enumerate(LETTERS))
    options = TextOptions(vocabulary=spelled, stop_strings=strings)
    request = Request(
        prompt=(0,), max_tokens=len(tokens), stop_sequences=sequences, eos_ids=eos, text=options, max_proposals=0
    )
    watch = TerminalWatch(len(tokens), ROOM, eos, StopSequences(sequences), StreamingText.before(PIECES, strings))
    output: tuple[int, ...] = ()
    shown = ""
    for size in rounds:
        walk = watch.walk(tokens[len(output) : len(output) + size])
        output = (*output, *walk.emitted)
        watch, text = walk.watch.take_text(ended=walk.finish is not None)
        shown += text
        if walk.finish is not None:
            break
        assert shown == visible_text(request, output, finished=False)
    budget = Budget(len(tokens), ReferenceReason.LENGTH)
    expected = next(
        (n, reason.value)
        for n in range(1, len(tokens) + 1)
        if (reason := terminal_reason(request, tokens[:n], None, budget)) is not None
    )
    assert (len(output), None if walk.finish is None else walk.finish.value) == expected
    assert shown == visible_text(request, output, finished=True)


def test_a_stop_sequence_across_rounds_leaks_nothing() -> None:
    watch = TerminalWatch(9, ROOM, frozenset(), StopSequences(((0, 1, 3),)), StreamingText.before(PIECES))
    watch, text = watch.walk((3, 0)).watch.take_text(ended=False)
    assert text == "c"
    assert watch.held == (0,)
    walk = watch.walk((1, 3, 0))
    assert (walk.emitted, walk.finish) == ((1, 3), FinishReason.STOP)
    assert walk.watch.take_text(ended=True)[1] == ""
    other = watch.walk((1, 0))
    assert other.watch.take_text(ended=False)[1] == "ab"
    assert other.watch.take_text(ended=True)[1] == "aba"


def test_a_stop_string_ends_the_output_although_its_last_id_begins_a_stop_sequence() -> None:
    text = StreamingText.before(PIECES, ("ca",))
    walk = TerminalWatch(9, ROOM, frozenset(), StopSequences(((0, 1),)), text).walk((1, 3, 0, 2))
    assert (walk.emitted, walk.finish) == ((1, 3, 0), FinishReason.STOP)
    assert walk.watch.take_text(ended=True)[1] == "b"


def test_the_end_of_sequence_has_no_text_even_if_its_token_spells_some() -> None:
    watch = TerminalWatch(9, ROOM, frozenset({3}), text=StreamingText.before(PIECES))
    walk = watch.walk((0, 1, 3))
    assert walk.finish is FinishReason.EOS
    assert walk.watch.take_text(ended=True)[1] == "ab"
    text = StreamingText.before(PIECES, ("bc",))
    assert TerminalWatch(9, ROOM, frozenset({3}), text=text).walk((1, 3)).finish is FinishReason.EOS


def test_masks_of_the_grammar_helper_allow_everything_before_its_end() -> None:
    state = grammar_ending_at(2)
    assert np.array_equal(state.mask(), np.ones(8, dtype=bool))
    assert not state.complete
    assert state.advance(0).advance(5).complete
