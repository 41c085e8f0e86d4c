"""Plain decoding of a crafted checkpoint on paper: what follows what with which probability, and where outputs end.

Rows are the checkpoint's stated logits through the reference's row function, in float64. Nothing here knows of
proposals, and nothing of it is computed by a subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eredu_conformance.crafted import CraftedCheckpoint
from eredu_conformance.harness.automaton import automaton_constraint
from eredu_conformance.protocol import Answer, Finish, Request, RunOptions
from eredu_reference import DfaConstraint, Sampling
from eredu_reference.constraint import is_complete, mask_of, state_after
from eredu_reference.rows import processed_row

Row = npt.NDArray[np.float64]


def sampling_of(options: RunOptions) -> Sampling:
    """The options as the reference writes them."""
    return Sampling(
        logit_bias=dict(options.logit_bias),
        repetition_penalty=options.repetition_penalty,
        repeat_last_n=options.repeat_last_n,
        frequency_penalty=options.frequency_penalty,
        presence_penalty=options.presence_penalty,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        temperature=options.temperature,
    )


@dataclass(frozen=True)
class ExpectedOutput:
    """One request of a checkpoint.

    Attributes:
        checkpoint: Its law.
        request: What is asked; its K, seed and acceptance rule are not read.
    """

    checkpoint: CraftedCheckpoint
    request: Request

    @cached_property
    def grammar(self) -> DfaConstraint | None:
        """The request's grammar."""
        grammar = self.request.options.grammar
        return None if grammar is None else automaton_constraint(grammar, self.checkpoint.vocabulary)

    @cached_property
    def budget(self) -> int:
        """Output tokens at the most: the last one need not fit into the context."""
        room = self.checkpoint.context_limit - len(self.request.prompt) + 1
        return min(self.request.options.max_tokens, room)

    def row(self, output: tuple[int, ...]) -> Row:
        """The processed distribution of the token behind an output that hasn't ended, shape (vocabulary,)."""
        history = self.request.prompt + output
        grammar = self.grammar
        state = None if grammar is None else state_after(grammar, grammar.start, output)
        return processed_row(
            self.checkpoint.next_logits(history),
            history=history,
            prompt_length=len(self.request.prompt),
            sampling=sampling_of(self.request.options),
            mask=mask_of(grammar, state),
        )

    def finish(self, output: Sequence[int]) -> Finish | None:
        """Why an output ends with its last token, or None where it goes on."""
        options = self.request.options
        if not output:
            return None
        if any(tuple(output[-len(stop) :]) == stop for stop in options.stop_sequences):
            return Finish.STOP
        if self.grammar is not None and is_complete(
            self.grammar, state_after(self.grammar, self.grammar.start, output)
        ):
            return Finish.GRAMMAR
        if output[-1] in options.eos_ids:
            return Finish.EOS
        if len(output) < self.budget:
            return None
        return Finish.LENGTH if self.budget == options.max_tokens else Finish.CONTEXT

    def greedy(self) -> Answer:
        """The only right answer at temperature 0."""
        output: tuple[int, ...] = ()
        while (finish := self.finish(output)) is None:
            output = (*output, int(np.argmax(self.row(output))))
        return Answer(tokens=output, finish=finish)

    def law(self) -> Mapping[tuple[int, ...], float]:
        """Probability of every possible output."""
        done: dict[tuple[int, ...], float] = {}
        pending: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        while pending:
            output, weight = pending.pop()
            if self.finish(output) is not None:
                done[output] = weight
                continue
            row = self.row(output)
            pending += [((*output, int(token)), weight * float(row[token])) for token in np.flatnonzero(row)]
        return done
