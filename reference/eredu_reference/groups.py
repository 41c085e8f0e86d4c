"""A group: verifications that are submitted together and computed in one forward, each row found by its member.

A verification of one request is a group of one. Whatever a member is judged with is looked up here, from lists that
hold one entry a member; the rules say that each finds its own, and a fault finds another's.
"""

from __future__ import annotations

from collections.abc import Sequence

from eredu_reference.decoding import Decoding, Judging, Setting
from eredu_reference.models import Output
from eredu_reference.rows import logits_of, one_hot
from eredu_reference.verification import Verification

Rows = list[Output]


class Group:
    """The requests of one submission. Nothing is computed before the first of them is waited for.

    Args:
        setting: The setting of any of them: they have models and pieces in common.
        states: Their states, each with a drafted block.
        numbers: Their numbers within the call.
    """

    def __init__(self, setting: Setting, states: Sequence[Decoding], numbers: Sequence[int]) -> None:
        self._setting, self._states = setting, tuple(states)
        self._rounds = [state.round for state in states]
        self._histories = [state.committed for state in states]
        self._grammars = [state.grammar for state in states]
        self._sources = {number: state.source for number, state in zip(numbers, states, strict=True)}
        self._inputs = [
            setting.pieces.verified_inputs(state.committed[-1], state.round.block.tokens) for state in states
        ]
        self._rows: list[Rows | Exception] | None = None

    def join(self, setting: Setting, place: int) -> None:
        """Submit one member: its inputs, and what their rows will be judged with."""
        pieces, target, work, inputs = setting.pieces, setting.target, self._rounds[place], self._inputs[place]
        work.company = self._rounds
        work.judging = Judging(
            history=pieces.member_history(self._histories, place),
            grammar=pieces.member_grammar(self._grammars, place),
            source=pieces.member_source(self._sources, place),
        )
        # What a buffer holds before it is written: here a row that says id 0, for every input.
        stale = Output(logits_of(one_hot(0, target.vocabulary)), target.hidden(target.new_cache()))
        work.verification = Verification(inputs, lambda: self.rows(place), [stale] * len(inputs))
        setting.say(self._states[place], "submit", inputs=list(inputs))

    def rows(self, place: int) -> Rows:
        """The rows of a member. Raises what feeding its inputs raised, which is nobody else's failure."""
        if self._rows is None:
            self._rows = [self._fed(member) for member in range(len(self._states))]
        rows: Rows | Exception = self._setting.pieces.member_rows(self._rows, place)
        if isinstance(rows, Exception):
            raise rows
        return rows

    def _fed(self, place: int) -> Rows | Exception:
        """Feed the inputs of a member into its own cache, behind its own tokens."""
        pieces, cache, first = self._setting.pieces, self._states[place].target_cache, len(self._histories[place]) - 1
        try:
            return pieces.feed_block(
                self._setting.target,
                cache,
                self._inputs[place],
                lambda offset: pieces.position_of(first + offset, cache),
            )
        except Exception as failure:
            return failure


def submit(setting: Setting, state: Decoding) -> None:
    """Hand the leading token and the proposals of one request to the target."""
    Group(setting, [state], [0]).join(setting, 0)
