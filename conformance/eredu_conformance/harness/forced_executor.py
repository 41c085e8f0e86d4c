"""An executor of eredu's whose proposals are prescribed, so that any row of a block can be made to be rejected.

The inner executor drafts as ever (its heads run, and their caches fill); only then are the tokens exchanged. Rules that
compare tokens alone, greedy and coupled, judge the exchanged ones: the output must not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import mlx.core as mx

from eredu.contract.constraint import Constraint
from eredu.contract.executor import CommitPlan, ExecutorTraits, Submission, VerificationOutcome
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.engine.executor import MlxExecutor
from eredu.engine.sequence import MlxSequence, MlxVerification


class OwnDraft(NamedTuple):
    """What the inner executor would have proposed.

    Attributes:
        committed: Prompt and output so far.
        tokens: Its proposals.
    """

    committed: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass
class ForcedExecutor:
    """Proposes the tokens of a known output, wrong at a chosen place of each block.

    Attributes:
        inner: Decodes plainly, or with heads.
        output: What plain decoding gives for the one request that this executor serves.
        wrong: Place in the block, from 0, whose proposal is not the output's, round by round and over again; a place
            behind the block keeps all of it right.
        depth: Proposals a round.
        own: What the inner executor would have proposed, round by round.
    """

    inner: MlxExecutor
    output: Sequence[int]
    wrong: Sequence[int]
    depth: int
    own: list[OwnDraft] = field(default_factory=list)

    @property
    def traits(self) -> ExecutorTraits:
        """The inner executor's, with proposals, and without promotion."""
        return replace(self.inner.traits, max_proposals=self.depth, exact_promotion=False)

    def open(self, request: GenerationRequest) -> MlxSequence:
        """As the inner executor."""
        return self.inner.open(request)

    def prefill(self, sequence: MlxSequence, limit: int) -> int:
        """As the inner executor."""
        return self.inner.prefill(sequence, limit)

    def draft(
        self, sequence: MlxSequence, count: int, promoted: MlxBlock | None, constraint: Constraint | None
    ) -> MlxBlock:
        """Let the inner executor draft, and put the prescribed tokens in the place of its own."""
        most = min(count, self.inner.traits.max_proposals)
        block = self.inner.draft(sequence, most, promoted, constraint)
        own = tuple(int(token.item()) for token in block.tokens)  # type: ignore[arg-type]
        self.own.append(OwnDraft(tuple(sequence.tokens), own))
        wrong = self.wrong[(len(self.own) - 1) % len(self.wrong)]
        block.tokens = [self._token(sequence.position + place, wrong=place == wrong) for place in range(count)]
        block.scores = []
        return block

    def submit(self, group: Sequence[Submission[MlxSequence, MlxBlock]]) -> list[MlxVerification | Exception]:
        """As the inner executor."""
        return self.inner.submit(group)

    def branch(self, sequence: MlxSequence, block: MlxBlock, count: int) -> MlxBlock:
        """As the inner executor."""
        return self.inner.branch(sequence, block, count)

    def wait(self, sequence: MlxSequence, verification: MlxVerification) -> VerificationOutcome:
        """As the inner executor."""
        return self.inner.wait(sequence, verification)

    def bonus_guess(self, sequence: MlxSequence, branch: MlxBlock) -> int:
        """As the inner executor."""
        return self.inner.bonus_guess(sequence, branch)

    def commit(self, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None) -> MlxBlock | None:
        """As the inner executor."""
        return self.inner.commit(sequence, plan, branch)

    def close(self, sequence: MlxSequence) -> None:
        """As the inner executor."""
        self.inner.close(sequence)

    def _token(self, position: int, *, wrong: bool) -> mx.array:
        """The proposal at an output position, shape (1,), uint32."""
        right = self.output[position] if position < len(self.output) else 0
        return mx.array([(right + wrong) % self.inner.traits.vocabulary_size], dtype=mx.uint32)
