"""The law: draw outputs, take their tokens as evidence, and stop when the question is settled.

Whether to go on is decided between portions, and from tokens already taken alone, so the evidence is valid whenever it
stops: on a deviation, at the asked number of tokens, at the asked resolution, or when somebody presses Ctrl-C. Other
processes may draw; the evidence is taken here, portion by portion in the order of the run, and is one process's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from eredu.contract.errors import OptionError
from eredu_validation.evidence import LEDGER_NAME, Columns, Ledger, LedgerContent, SubjectIdentity, Terms
from eredu_validation.measures.emissions import columns_of_outputs, decode_batch, request_seed
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject
from eredu_validation.session.goal import Goal, LawProgress
from eredu_validation.workers.sharded_ranks import ShardedRanks
from eredu_validation.workers.work_plan import Portion, WorkPlan
from eredu_validation.workers.worker_pool import Failure, WorkerPool

SHARES = 4
"""Portions that the last requests of a wave are split into on a CPU, where few cost no more a token than many."""


@dataclass
class Pace:
    """Lets something be done again and again, but for no more than a small share of the time.

    Attributes:
        share: The share.
    """

    share: float = 0.05
    _due: float = 0.0

    def do(self, work: Callable[[], None]) -> None:
        """Do it, unless it was done too shortly ago for what it costs."""
        begun = time.monotonic()
        if begun >= self._due:
            work()
            ended = time.monotonic()
            self._due = ended + (ended - begun) / self.share


@dataclass(frozen=True)
class LawRun:
    """One session of gathering evidence.

    Attributes:
        subject: What decodes.
        prompts: Taken in turn.
        goal: When enough was drawn.
        batch: Requests decoded together.
        sharded: The ranks that hold the target together; None where this process holds all of it.
    """

    subject: Subject
    prompts: Sequence[EncodedPrompt]
    goal: Goal
    batch: int = 4
    sharded: ShardedRanks | None = None

    def run(
        self,
        ledger: Ledger,
        on_progress: Callable[[LawProgress], None] = lambda _: None,
        pool: WorkerPool | None = None,
    ) -> None:
        """Add to the ledger until the goal is reached or a deviation is found.

        Args:
            ledger: Holds the evidence.
            on_progress: Is told where the run stands.
            pool: Other processes that draw; None for none.

        Raises `OptionError` where no number of tokens reaches the goal.
        """
        header = ledger.content.header
        needed = self.goal.needed(header.terms)
        if needed is None:
            raise OptionError(
                f"a total variation of {self.goal.resolve} hides in the tolerance of {header.terms.tolerance:.2g}, "
                "whatever is drawn; ask for a larger --resolve, or give --tokens"
            )
        evidence, keeping = ledger.evidence(), Pace()
        others = pool or WorkerPool(identity=header.identity)
        if not others.has_begun:
            others.begin(self.plan(ledger.content, needed), seed=header.seed, part=header.part)
        others.settle(needed)

        def tell(ahead: int = 0) -> None:
            taken = evidence.tally.tokens
            on_progress(LawProgress(tokens=taken + ahead, log_e=evidence.log_e, resolved=evidence.resolved))

        def draw(portion: Portion, on_tokens: Callable[[int], None]) -> Columns:
            return self.draw(header.seed, header.part, portion, on_tokens)

        tell()
        try:
            while evidence.crossing is None and evidence.tally.tokens < needed:
                portion, columns = others.next_drawn(draw, tell)
                ledger.append(evidence.take(columns), next_request=portion.stop, wave=others.wave)
                others.counted(portion, evidence.tally.tokens)
                keeping.do(lambda: ledger.keep(evidence))
                tell()
        finally:
            ledger.keep(evidence)

    def plan(self, content: LedgerContent | None, needed: int) -> WorkPlan[Columns | Failure]:
        """What is to be drawn towards so many tokens or more, behind what a ledger holds."""
        return WorkPlan(
            first=0 if content is None else content.next_request,
            taken=0 if content is None else content.tally.tokens,
            needed=needed,
            batch=self.batch,
            length=self.subject.options.max_tokens,
            shares=SHARES if mx.default_device().type == mx.DeviceType.cpu else 1,
            settled=False,
            begun=None if content is None else content.wave,
        )

    def draw(self, seed: int, part: int, portion: Portion, on_tokens: Callable[[int], None]) -> Columns:
        """Tokens of a portion, with their rows."""
        numbers = range(portion.first, portion.stop)
        if self.sharded is not None:
            self.sharded.tell_draw(seed, part, portion)
        subject = self.subject.with_options(max_tokens=portion.length)
        outputs = decode_batch(
            subject,
            [self.prompts[number % len(self.prompts)].tokens for number in numbers],
            first=portion.first,
            seeds=[request_seed(seed, part, number) for number in numbers],
            on_tokens=on_tokens,
        )
        if self.sharded is not None:
            self.sharded.require_agreement([token for output in outputs for token in output.text.output])
        return columns_of_outputs(subject, outputs)


def open_ledger(place: Path, identity: SubjectIdentity, terms: Terms, *, seed: int) -> Ledger:
    """The ledger in a folder: gone on with where there is one, else begun.

    Raises `EvidenceError` where it is about another subject, naming what differs.
    """
    path = place / LEDGER_NAME
    if path.exists():
        return Ledger.resume(path, identity, terms)
    return Ledger.begin(path, identity, terms, seed=seed)
