"""The model for exact laws: target and drafter as tables of fractions over a small vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from eredu_spec import acceptance
from eredu_spec.draws import Draw, Draws, Fresh, Memory, Outcome, Tokens
from eredu_spec.processing import Processing
from eredu_spec.randomness import Address
from eredu_spec.request import Request
from eredu_spec.sites import obeys
from eredu_spec.terminal import Terminals

Row = tuple[Fraction, ...]
Table = Mapping[Tokens, Row]
"""Raw weights by context: the last tokens, as many as the table's order."""

HiddenRow = Callable[[Row, int], Row]
"""A drafter that reads hidden states: its row from the table's, and the tokens since the last state it read."""


@obeys("draft.recorded-distribution", "verify.rows-see-prefix", "capability.same-vocabulary")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tables:
    """Target and drafter.

    Attributes:
        target: Raw weights of the target.
        draft: Raw weights of the drafter, over the same vocabulary.
        order: Tokens of context that both read.
        rule: How proposals are verified.
        processing: The map from raw weights to processed distributions, the same for both.
        terminals: What ends an output.
        draws: How randomness falls.
        hidden: How the drafter's row depends on its distance to the target's last hidden state; None if it does not.
    """

    target: Table
    draft: Table
    order: int = 2
    rule: str = "rejection"
    processing: Processing = field(default_factory=Processing)
    terminals: Terminals = field(default_factory=Terminals)
    draws: Draws = field(default_factory=Fresh)
    hidden: HiddenRow | None = None
    rows: dict[tuple[str, Tokens, Tokens, int], Row] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        sizes = {len(row) for table in (self.target, self.draft) for row in table.values()}
        if len(sizes) != 1:
            raise ValueError(f"rows had {sorted(sizes)} ids; expected one vocabulary for target and drafter")

    def conditions(self, output: Tokens, token: int) -> int:
        """Which terminal conditions `token` meets behind `output`."""
        return self.terminals.conditions(output, token)

    def target_row(self, prompt: Tokens, output: Tokens) -> Row:
        """Processed distribution of the target behind `prompt + output`."""
        return self._row("target", prompt, output, 0)

    def draft_row(self, prompt: Tokens, output: Tokens, reach: int) -> Row:
        """Processed distribution of the drafter there, `reach` tokens behind the last state it read."""
        return self._row("draft", prompt, output, reach if self.hidden else 0)

    def propose(
        self, request: Request, proposed: Tokens, reach: int, memory: Memory, address: Address
    ) -> Iterator[Draw]:
        """The ways in which the next proposal falls."""
        row = self.draft_row(request.settings.prompt, request.output + proposed, reach)
        if self.rule == "greedy":
            yield Draw(acceptance.argmax(row), Fraction(1), memory)
            return
        for token, weight, known in self.draws.token(memory, address, row):
            yield Draw(token, weight, known)

    def verify(self, request: Request) -> Iterator[Outcome]:
        """The ways in which the verification falls."""
        block = acceptance.Block(
            rule=self.rule,
            proposals=request.block,
            target=lambda index: self.target_row(request.settings.prompt, request.output + request.block[:index]),
            draft=lambda index: self._drafted_from(request, index),
            start=len(request.output),
            guess=request.branch[0] if request.branch else None,
            ended=request.ended,
            draws=self.draws,
            addresses=request.settings.addresses,
        )
        for accepted, token, weight, memory in acceptance.judged(block, request.memory):
            candidates = request.block[:accepted] + (() if token is None else (token,))
            matched = None
            if accepted == len(request.block) and request.branch and token is not None:
                matched = token == request.branch[0]
            yield Outcome(accepted, candidates, matched, weight, memory)

    @obeys("draft.recorded-distribution")
    def _drafted_from(self, request: Request, index: int) -> Row:
        """The distribution that proposal `index` was really drawn from; behind the block, that of the guess."""
        return self.draft_row(request.settings.prompt, request.output + request.block[:index], request.reach + index)

    def _row(self, kind: str, prompt: Tokens, output: Tokens, reach: int) -> Row:
        key = kind, prompt, output, reach
        row = self.rows.get(key)
        if row is None:
            table = self.target if kind == "target" else self.draft
            raw = table[(prompt + output)[-self.order :]] if self.order else table[()]
            if kind == "draft" and self.hidden is not None:
                raw = self.hidden(raw, reach)
            row = self.rows[key] = self.processing.row(raw, prompt, output)
        return row
