"""An executor of `eredu` over the reference's toy models, in float64 and without arrays on a device.

Everything is explicit: a verification appends its rows to the target's cache at once and decides when somebody waits,
a draft block owns a clone of the drafter's cache, and a commit rolls back. Each call is checked against the life cycle
of a round, and after each commit the caches must hold what the models would hold had they been fed the committed
tokens one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eredu.contract.constraint import Constraint
from eredu.contract.errors import AcceptanceError
from eredu.contract.executor import CommitPlan, ExecutorTraits, Submission, VerificationOutcome, submit_in_turn
from eredu.contract.request import GenerationRequest
from eredu_conformance.harness.grammar_state import GrammarTrack
from eredu_conformance.harness.table_decisions import decide, draw_proposal, reference_sampling
from eredu_conformance.harness.table_forward import Part, forward
from eredu_conformance.harness.table_sequence import TableBlock, TableSequence, TableVerification, require
from eredu_reference.errors import AcceptanceError as ReferenceAcceptanceError
from eredu_reference.models import Drafter, Model, Output, feed, replay
from eredu_reference.rows import Row, processed_row, softmax
from eredu_reference.sources import ThreefrySource


class TableExecutor:
    """Implements `SpeculativeExecutor`.

    Args:
        target: The target.
        drafter: An independent drafter, one that reads nothing of the target; None decodes plainly.
        joins: Whether a group is verified in one forward, rather than its members in turn.
    """

    def __init__(self, target: Model, drafter: Drafter | None = None, *, joins: bool = True) -> None:
        require(drafter is None or not drafter.reads_hidden, "this executor hands no hidden state to a drafter")
        self._target = target
        self._drafter = drafter
        self._joins = joins
        self.sequences: list[TableSequence] = []

    @property
    def traits(self) -> ExecutorTraits:
        """Limits of both models."""
        drafter = self._drafter
        return ExecutorTraits(
            vocabulary_size=self._target.vocabulary,
            max_proposals=0 if drafter is None else drafter.max_proposals,
            target_context=self._target.context,
            drafter_context=None if drafter is None else drafter.model.context,
            exact_promotion=drafter is not None and drafter.exact_promotion,
        )

    def open(self, request: GenerationRequest) -> TableSequence:
        """Empty caches for one request."""
        sequence = TableSequence(
            request=request,
            sampling=reference_sampling(request.options.sampling),
            source=ThreefrySource(request.randomness.root),
            tokens=list(request.prompt),
            target=self._target.new_cache(),
            drafter=None if self._drafter is None else self._drafter.model.new_cache(),
        )
        self.sequences.append(sequence)
        return sequence

    def prefill(self, sequence: TableSequence, limit: int) -> int:
        """Feed up to `limit` tokens of prompt[:-1] to the target; the drafter catches up when it drafts."""
        self._check_idle(sequence, "prefill")
        require(limit >= 1, f"{sequence.name}: a prefill of {limit} tokens goes nowhere")
        require(len(sequence.tokens) == len(sequence.request.prompt), f"{sequence.name}: prefill behind an output")
        last = len(sequence.request.prompt) - 1
        fed = len(sequence.target)
        for position in range(fed, min(last, fed + limit)):
            feed(self._target, sequence.target, sequence.tokens[position], position)
        return last - len(sequence.target)

    def draft(
        self, sequence: TableSequence, count: int, promoted: TableBlock | None, constraint: Constraint | None
    ) -> TableBlock:
        """Draft or top up the block of the next round."""
        self._check_idle(sequence, "draft")
        require(promoted is sequence.promoted, f"{sequence.name}: another block than the promoted one is topped up")
        require(constraint == self._grammar(sequence), f"{sequence.name}: drafting from the grammar state {constraint}")
        require(promoted is None or promoted.count <= count, f"{sequence.name}: promotion exceeds the block of {count}")
        block = promoted or TableBlock(len(sequence.tokens), (), (), sequence.drafter, GrammarTrack((constraint,)))
        while block.count < count and not block.at_grammar_end:
            block = self._propose(sequence, block, start=sequence.position, index=block.count)
        return block

    def submit(self, group: Sequence[Submission[TableSequence, TableBlock]]) -> list[TableVerification | Exception]:
        """Append each member's leading token and proposals to its target's cache, in one forward or in turn."""
        if self._joins:
            return self._submit_joined(group)
        return submit_in_turn(group, self._submit_one)

    def _submit_one(self, member: Submission[TableSequence, TableBlock]) -> TableVerification:
        [rows] = forward(self._target, [self._part(member)])
        if isinstance(rows, Exception):
            raise rows
        return self._started(member, rows)

    def _submit_joined(
        self, group: Sequence[Submission[TableSequence, TableBlock]]
    ) -> list[TableVerification | Exception]:
        parts = submit_in_turn(group, self._part)
        rows = iter(forward(self._target, [part for part in parts if isinstance(part, Part)]))
        answers = [part if isinstance(part, Exception) else next(rows) for part in parts]
        return [
            answer if isinstance(answer, Exception) else self._started(member, answer)
            for member, answer in zip(group, answers, strict=True)
        ]

    def _part(self, member: Submission[TableSequence, TableBlock]) -> Part:
        """What a member feeds, once its submission is found in order."""
        sequence, block = member.sequence, member.block
        self._check_idle(sequence, "submit")
        require(block.boundary == len(sequence.tokens), f"{sequence.name}: a block drafted at {block.boundary}")
        remaining = sequence.request.options.max_tokens - sequence.position
        require(remaining > block.count, f"{sequence.name}: {block.count} proposals, but {remaining} tokens to go")
        announced = member.more <= (remaining > block.count + 1)
        require(announced, f"{sequence.name}: another round is announced past the budget")
        return Part(sequence.target, (sequence.tokens[-1], *block.tokens))

    @staticmethod
    def _started(member: Submission[TableSequence, TableBlock], rows: Sequence[Output]) -> TableVerification:
        verification = TableVerification(member.block, tuple(rows))
        member.sequence.running = verification
        member.sequence.promoted = None
        return verification

    def branch(self, sequence: TableSequence, block: TableBlock, count: int) -> TableBlock:
        """Draft behind the block that is being verified, from a clone of its frontier."""
        running = sequence.running
        require(running is not None and running.block is block, f"{sequence.name}: a branch of a block not in flight")
        require(sequence.branch is None, f"{sequence.name}: a second branch of one block")
        require(count >= 2, f"{sequence.name}: a branch of {count} tokens can reuse nothing")
        require(block.count > 0 and not block.at_grammar_end, f"{sequence.name}: nothing may follow the block")
        boundary = len(sequence.tokens) + block.count
        branch = TableBlock(boundary, (), (), block.frontier, block.grammar.tail(block.count, 0))
        branch = self._propose(sequence, branch, start=sequence.position, index=block.count, before=block.tokens)
        following = sequence.position + block.count + 1
        while branch.count < count and not branch.at_grammar_end:
            branch = self._propose(sequence, branch, start=following, index=branch.count - 1, before=block.tokens)
        sequence.branch = branch
        return branch

    def wait(self, sequence: TableSequence, verification: TableVerification) -> VerificationOutcome:
        """Process the target's rows and decide."""
        require(sequence.running is verification, f"{sequence.name}: waiting for a verification that is not in flight")
        require(verification.outcome is None, f"{sequence.name}: waiting twice for one verification")
        block = verification.block
        rows = [
            self._row(sequence, output.logits, block.tokens[:index], block.grammar, index)
            for index, output in enumerate(verification.outputs)
        ]
        try:
            decision = decide(
                sequence.source,
                sequence.request.options,
                start=sequence.position,
                proposals=block.tokens,
                target_rows=rows,
                draft_rows=block.rows,
            )
        except ReferenceAcceptanceError as error:
            raise AcceptanceError(str(error)) from error
        verification.outcome = VerificationOutcome(block.tokens, decision.accepted, decision.token)
        return verification.outcome

    def bonus_guess(self, sequence: TableSequence, branch: TableBlock) -> int:
        """The branch's first token."""
        require(sequence.branch is branch, f"{sequence.name}: reading a branch of another round")
        outcome = None if sequence.running is None else sequence.running.outcome
        require(
            outcome is not None and outcome.accepted == len(outcome.proposals),
            f"{sequence.name}: a branch is compared before its parent was wholly accepted",
        )
        return branch.tokens[0]

    def commit(self, sequence: TableSequence, plan: CommitPlan, branch: TableBlock | None) -> TableBlock | None:
        """Keep `plan.kept` of the verified rows, move the drafter to the new boundary, and check both caches."""
        running = sequence.running
        require(running is not None, f"{sequence.name}: a commit without a verification")
        assert running is not None
        require(running.outcome is not None, f"{sequence.name}: a commit before the verification was waited for")
        require(branch is sequence.branch, f"{sequence.name}: a commit with a branch of another round")
        self._check_plan(sequence, running, plan)
        boundary = len(sequence.tokens) + plan.kept
        sequence.target.rollback(len(sequence.tokens) - 1 + plan.kept)
        sequence.target.settle(len(sequence.target))
        sequence.tokens.extend(plan.tokens)
        frontier = running.block.frontier
        if plan.promoted is not None and branch is not None and branch.frontier is not None:
            frontier = branch.frontier
            sequence.promoted = self._promote(branch, plan.promoted)
        if frontier is not None:
            sequence.drafter = frontier.copy()
            sequence.drafter.rollback(min(len(frontier), boundary - 1))
            sequence.drafter.settle(len(sequence.drafter))
        sequence.running = sequence.branch = None
        self._check_caches(sequence)
        return sequence.promoted

    def close(self, sequence: TableSequence) -> None:
        """Release a request, whatever it was doing."""
        require(not sequence.closed, f"{sequence.name}: released twice")
        sequence.running = sequence.branch = sequence.promoted = None
        sequence.closed = True

    # ---- pieces --------------------------------------------------------------------------------------------------

    def _propose(
        self, sequence: TableSequence, block: TableBlock, *, start: int, index: int, before: tuple[int, ...] = ()
    ) -> TableBlock:
        """The block with one more proposal; its frontier is a clone, fed with all that comes before it."""
        drafter = self._drafter
        require(drafter is not None and block.frontier is not None, f"{sequence.name}: drafting without a drafter")
        assert drafter is not None
        assert block.frontier is not None
        pending = (*before, *block.tokens)
        known = (*sequence.tokens, *pending)
        frontier = block.frontier.copy()
        require(len(frontier) < len(known), f"{sequence.name}: the drafter is ahead of what it drafts from")
        for position in range(len(frontier), len(known)):
            output = feed(drafter.model, frontier, known[position], position)
        if drafter.raw:
            row = softmax(output.logits[: self._target.vocabulary])
        else:
            row = self._row(sequence, output.logits, pending, block.grammar, block.count)
        token = draw_proposal(sequence.source, sequence.request.options, row, start=start, index=index)
        return TableBlock(
            block.boundary, (*block.tokens, token), (*block.rows, row), frontier, block.grammar.advance(token)
        )

    def _row(
        self, sequence: TableSequence, logits: Row, pending: tuple[int, ...], grammar: GrammarTrack, index: int
    ) -> Row:
        return processed_row(
            logits[: self._target.vocabulary],
            history=(*sequence.tokens, *pending),
            prompt_length=len(sequence.request.prompt),
            sampling=sequence.sampling,
            mask=grammar.mask(index),
        )

    @staticmethod
    def _promote(branch: TableBlock, count: int) -> TableBlock:
        assert branch.frontier is not None
        frontier = branch.frontier.copy()
        boundary = branch.boundary + 1
        frontier.rollback(min(len(frontier), boundary + count - 1))
        stop = 1 + count
        return TableBlock(boundary, branch.tokens[1:stop], branch.rows[1:stop], frontier, branch.grammar.tail(1, count))

    # ---- checks --------------------------------------------------------------------------------------------------

    @staticmethod
    def _check_idle(sequence: TableSequence, what: str) -> None:
        require(not sequence.closed, f"{sequence.name}: {what} behind the end")
        require(sequence.running is None, f"{sequence.name}: {what} while a verification is in flight")

    @staticmethod
    def _grammar(sequence: TableSequence) -> Constraint | None:
        """The grammar's state behind the committed output, from the beginning."""
        state = sequence.request.constraint
        for token in sequence.tokens[len(sequence.request.prompt) :]:
            state = None if state is None else state.advance(token)
        return state

    @staticmethod
    def _check_plan(sequence: TableSequence, running: TableVerification, plan: CommitPlan) -> None:
        outcome, branch = running.outcome, sequence.branch
        assert outcome is not None
        emitted = (*outcome.proposals[: outcome.accepted], outcome.token)
        require(plan.kept == len(plan.tokens), f"{sequence.name}: {plan.kept} rows stay for tokens {plan.tokens}")
        require(plan.tokens == emitted[: plan.kept], f"{sequence.name}: committing {plan.tokens} instead of {emitted}")
        if plan.promoted is None:
            return
        require(
            branch is not None
            and plan.tokens == (*outcome.proposals, branch.tokens[0])
            and outcome.token == branch.tokens[0]
            and 0 <= plan.promoted < branch.count,
            f"{sequence.name}: promoting {plan.promoted} of {branch} behind {plan.tokens}",
        )

    def _check_caches(self, sequence: TableSequence) -> None:
        """The caches must hold what feeding the committed tokens one by one would have put there."""
        expected, _ = replay(self._target, sequence.tokens[:-1])
        require(
            sequence.target.content() == expected.content(),
            f"{sequence.name}: the target's cache is not that of all tokens but the last",
        )
        for frontier, known in self._frontiers(sequence):
            assert self._drafter is not None
            expected, _ = replay(self._drafter.model, known[: len(frontier)])
            require(
                len(frontier) < len(known) and frontier.content() == expected.content(),
                f"{sequence.name}: the drafter's frontier is not exact",
            )

    @staticmethod
    def _frontiers(sequence: TableSequence) -> list[tuple[Any, list[int]]]:
        """Every drafter cache that lives between rounds, and the tokens that it may have been fed."""
        frontiers: list[tuple[Any, list[int]]] = []
        if sequence.drafter is not None:
            frontiers.append((sequence.drafter, sequence.tokens))
        promoted = sequence.promoted
        if promoted is not None and promoted.frontier is not None:
            frontiers.append((promoted.frontier, [*sequence.tokens, *promoted.tokens]))
        return frontiers
