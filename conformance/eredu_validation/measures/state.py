"""The state after a commit: every accepted length forced, and the next rows held against a fresh start.

A block is drafted and verified through the executor that decoding uses, then the commit keeps a number of its rows
that this part chooses, whatever the acceptance rule said. The next row of the target and of the drafter must be those
of a sequence that never speculated: one whose prompt held all that is committed, read afresh for every commit, and one
that goes on behind the prompt, read on the plain path, in single steps. Caches of sliding windows cannot be rolled back
and are refused before, so no length has to pass a window.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import mlx.core as mx

from eredu.contract.executor import CommitPlan, SpeculativeExecutor, submit_alone
from eredu.contract.options import AcceptanceRule, GenerationOptions, SamplingOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu_validation.measures.inside import MlxSequence, SequenceCache, process_rows
from eredu_validation.measures.numerics import feed_rows, total_variation
from eredu_validation.measures.plain_rows import normalised
from eredu_validation.measures.prompt_states import PROMPT_CHUNK, read_prompt
from eredu_validation.measures.subject import Subject

LENGTHS = (2, 5, 33, 255)
"""Prompt lengths, as far as there is text; the last one's round passes the end of buffers that grow by 256."""
LONG = 100
"""From this length on only none and all of the proposals are kept."""
LEAST_LIMIT = 1e-5
"""Total variation below which two rows count as one whatever was audited."""
PLAIN = SamplingOptions(temperature=1.0)
MARGIN = 10.0
"""Limit over the audited tolerance: a missed rollback moves rows by far more."""


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """One forced commit.

    Attributes:
        length: Tokens of the prompt.
        proposals: Proposals of the round.
        accepted: How many of them the commit kept.
        to_prefill: Total variation between the target's next row and that behind a fresh prefill.
        to_replay: The same against a replay of the round in single steps.
        drafter: Total variation between the drafter's next row and that of a fresh sequence.
    """

    length: int
    proposals: int
    accepted: int
    to_prefill: float
    to_replay: float
    drafter: float


@dataclass(frozen=True, kw_only=True)
class StateReport:
    """All of them.

    Attributes:
        rows: The forced commits.
        limit: Total variation above which a target's row is another one.
    """

    rows: tuple[StateRow, ...]
    limit: float

    @property
    def violations(self) -> tuple[StateRow, ...]:
        """Commits behind which the target goes on from another state."""
        return tuple(row for row in self.rows if not max(row.to_prefill, row.to_replay) <= self.limit)

    @property
    def drafter_strays(self) -> tuple[StateRow, ...]:
        """Commits behind which the drafter does: no loss of exactness, but of acceptance."""
        return tuple(row for row in self.rows if not row.drafter <= self.limit)

    @property
    def sentence(self) -> str:
        """In words."""
        if not self.rows:
            return "no text was long enough to force a commit"
        worst = max(max(row.to_prefill, row.to_replay) for row in self.rows)
        apart = (
            "those of a fresh start" if worst == 0 else f"within a total variation of {worst:.1e} of a fresh start's"
        )
        text = f"{len(self.rows)} forced commits, the next rows are {apart}"
        if self.violations:
            row = self.violations[0]
            text = (
                f"{len(self.violations)} of {len(self.rows)} forced commits leave another state: first at "
                f"{row.length} prompt tokens with {row.accepted} of {row.proposals} accepted, total variation "
                f"{max(row.to_prefill, row.to_replay):.1e} (allowed: {self.limit:.1e})"
            )
        if self.drafter_strays:
            text += f"; the drafter goes on from another state behind {len(self.drafter_strays)} of them"
        return text

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            "text": self.sentence,
            "limit": self.limit,
            "violations": len(self.violations),
            "rows": [asdict(row) for row in self.rows],
        }


def check_state(subject: Subject, text: Sequence[int], *, tolerance: float) -> StateReport:
    """Force every accepted length at each prompt length that the text has.

    Args:
        subject: What decodes.
        text: Token ids.
        tolerance: The audited tolerance.
    """
    lengths = [length for length in LENGTHS if length + subject.depth + 2 <= len(text)]
    visitor = _Forcing(subject, text, lengths or [min(2, len(text))])
    rows = subject.model.backend.lend_speculative(subject.assistant, visitor)
    return StateReport(rows=tuple(rows), limit=max(LEAST_LIMIT, MARGIN * tolerance))


@dataclass(frozen=True)
class _Start:
    """What the forced commits of one length begin from.

    Attributes:
        prompt: The prompt.
        proposals: Proposals of a round.
        sequence: Behind the prompt, as decoding has it; to be cloned.
        plain: The target's caches behind the prompt on the plain path; to be cloned.
    """

    prompt: tuple[int, ...]
    proposals: int
    sequence: MlxSequence
    plain: SequenceCache


@dataclass(frozen=True)
class _Forcing:
    """Receives the executor of decoding, and forces commits on it."""

    subject: Subject
    text: Sequence[int]
    lengths: Sequence[int]

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> list[StateRow]:
        rows = []
        for length in self.lengths:
            start = self._start(executor, length)
            accepted = range(start.proposals + 1) if length < LONG else sorted({0, start.proposals})
            rows += [self._force(executor, start, count) for count in accepted]
            executor.close(start.sequence)
        return rows

    def _start(self, executor: SpeculativeExecutor[Any, Any, Any], length: int) -> _Start:
        prompt, target = tuple(self.text[:length]), self.subject.target
        count = max(0, min(self.subject.depth, executor.traits.max_proposals, target.context - length - 2))
        if length < 2 and executor.traits.needs_hidden:
            count = 0
        return _Start(prompt, count, self._open(executor, prompt), read_prompt(target, prompt).cache)

    def _force(self, executor: SpeculativeExecutor[Any, Any, Any], start: _Start, accepted: int) -> StateRow:
        """One commit of `accepted` proposals, and the next rows behind it and behind its two oracles."""
        length = len(start.prompt)
        sequence = _twin(start.sequence)
        block = executor.draft(sequence, start.proposals, None, None)
        outcome = executor.wait(sequence, submit_alone(executor, sequence, block))
        kept = (*outcome.proposals[:accepted], self.text[length % len(self.text)])
        executor.commit(sequence, CommitPlan(kept=len(kept), tokens=kept), None)
        fresh = self._open(executor, (*start.prompt, *kept))
        drafter = self._drafter_gap(executor, sequence, fresh)
        committed, behind_prefill = (self._next_row(each) for each in (sequence, fresh))
        replayed = feed_rows(self.subject.target, start.plain.clone(), (start.prompt[-1], *kept), width=1)[-1:]
        executor.close(sequence)
        executor.close(fresh)
        return StateRow(
            length=length,
            proposals=start.proposals,
            accepted=accepted,
            to_prefill=_gap(committed, behind_prefill),
            to_replay=_gap(committed, replayed),
            drafter=drafter,
        )

    def _open(self, executor: SpeculativeExecutor[Any, Any, Any], prompt: tuple[int, ...]) -> MlxSequence:
        options = GenerationOptions(
            sampling=PLAIN, acceptance=AcceptanceRule.REJECTION, max_proposals=self.subject.options.max_proposals
        )
        sequence: MlxSequence = executor.open(GenerationRequest(0, prompt, options, RequestRandomness.from_seed(1)))
        while executor.prefill(sequence, PROMPT_CHUNK):
            pass
        return sequence

    def _drafter_gap(
        self, executor: SpeculativeExecutor[Any, Any, Any], sequence: MlxSequence, fresh: MlxSequence
    ) -> float:
        blocks = [executor.draft(each, 1, None, None) for each in (sequence, fresh)]
        one, other = (normalised(block.scores[0]) for block in blocks)
        return float(total_variation(one, other)[0])

    def _next_row(self, sequence: MlxSequence) -> mx.array:
        """The target's logits behind all that is committed, shape (1, vocabulary)."""
        row = feed_rows(self.subject.target, sequence.target, sequence.tokens[-1:], width=1)
        sequence.target.rollback(len(sequence.tokens) - 1)
        return row


def _twin(sequence: MlxSequence) -> MlxSequence:
    """A sequence at rest once more, so that its prompt need not be read for each commit."""
    return replace(
        sequence,
        tokens=[*sequence.tokens],
        target=sequence.target.clone(),
        drafter=copy.deepcopy(sequence.drafter),
        running=[],
    )


def _gap(one: mx.array, other: mx.array) -> float:
    """Total variation between the distributions of two rows of logits."""
    return float(total_variation(*(normalised(process_rows(each, PLAIN)) for each in (one, other)))[0])
