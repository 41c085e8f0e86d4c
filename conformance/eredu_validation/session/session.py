"""One validation from a loaded subject to its result: parts, tolerance, evidence, verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from eredu.contract.errors import OptionError
from eredu_validation.evidence import LEDGER_NAME, Ledger, SubjectIdentity, Terms, read_ledger, result_of_run
from eredu_validation.measures.numerics import feed
from eredu_validation.measures.parts import COARSE, OPTIONAL, PARTS, TOLERANCES, Parts, measure_parts
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject
from eredu_validation.session.goal import Goal, LawProgress
from eredu_validation.session.law_run import LawRun, open_ledger
from eredu_validation.session.result import whole_result
from eredu_validation.workers.sharded_ranks import RankTask, ShardedRanks
from eredu_validation.workers.worker_pool import WorkerPool

TIMED = "benefit"
"""The part that measures speed, during which nothing else may draw."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A validation that is set up.

    Attributes:
        subject: What is validated.
        prompts: Its prompts.
        identity: Names the subject.
        goal: When enough was drawn.
        alpha: Chance of a false report.
        tolerance: Total variation that arithmetic may cause; None measures it, or takes the ledger's.
        seed: Root of all randomness of a new ledger.
        batch: Requests decoded together.
        place: Folder of the evidence.
        skip: Parts to leave out.
        models: Arguments of `eredu generate` that name the models.
        sharded: The ranks that hold the target together; None where this process holds all of it.
    """

    subject: Subject
    prompts: Sequence[EncodedPrompt]
    identity: SubjectIdentity
    goal: Goal
    alpha: float
    tolerance: float | None
    seed: int
    batch: int
    place: Path
    skip: frozenset[str]
    models: str
    sharded: ShardedRanks | None = None

    def __post_init__(self) -> None:
        stray = sorted(self.skip - set(OPTIONAL))
        if stray:
            raise OptionError(f"--skip was {stray[0]!r}; expected one of {', '.join(OPTIONAL)}")
        if self.subject.options.sampling.is_greedy:
            raise OptionError(
                "--temperature was 0, and greedy decoding draws nothing that could have a law; give a temperature "
                "above 0, and the path part compares greedy outputs beside"
            )
        if self.subject.options.max_proposals < 1 and self.subject.engine is None:
            raise OptionError("--proposals was 0, which is plain decoding; give at least 1")
        if self.batch < 1:
            raise OptionError(f"--batch was {self.batch}; expected at least 1")

    @property
    def law(self) -> LawRun:
        """What draws and gathers."""
        return LawRun(
            subject=self.subject, prompts=self.prompts, goal=self.goal, batch=self.batch, sharded=self.sharded
        )

    def open(self, pool: WorkerPool, on_part: Callable[[str], None]) -> tuple[Ledger, Parts]:
        """The ledger, gone on with or begun, and the parts, kept beside it or measured now.

        Each part is kept as soon as it is measured, so that an interrupted validation goes on with those that are
        missing. While parts of a new validation are measured, the pool draws ahead, but not while time is measured.

        Raises `EvidenceError` where the folder holds evidence about another subject, naming what differs.
        """
        begun = (self.place / LEDGER_NAME).exists()
        if begun:
            # Refuses another subject before anything is measured.
            self._ledger(Parts()).close()

        def measuring(part: str) -> None:
            on_part(part)
            if not begun:
                self._direct(pool, part)

        known: Parts | None = Parts.read(self.place, self.identity)
        if self.sharded is not None and known is not None:
            # The other ranks have no folder, and could not follow a measurement that leaves out what is known.
            if begun or known.found.keys() >= set(PARTS) - self.skip:
                return self._ledger(known), known
            known = None
        parts = self.measure(known, measuring, lambda found: found.write(self.place, self.identity))
        return self._ledger(parts), parts

    def measure(
        self,
        known: Parts | None = None,
        on_part: Callable[[str], None] = lambda _: None,
        on_found: Callable[[Parts], None] = lambda _: None,
    ) -> Parts:
        """Measure the parts that are not known; see `measure_parts`."""
        if self.sharded is not None:
            self.sharded.tell(RankTask.PARTS)
        return measure_parts(
            self.subject,
            self.prompts,
            skip=self.skip,
            seed=self.seed,
            max_tokens=self.subject.options.max_tokens,
            models=self.models,
            known=known,
            on_part=on_part,
            on_found=on_found,
        )

    def _ledger(self, parts: Parts) -> Ledger:
        """The folder's ledger, gone on with under its own tolerance unless one is asked for, or a new one."""
        path, tolerance = self.place / LEDGER_NAME, self.tolerance
        if tolerance is None:
            tolerance = read_ledger(path).header.terms.tolerance if path.exists() else self._tolerance(parts)
        terms = Terms(alpha=self.alpha, tolerance=tolerance)
        return open_ledger(self.place, self.identity, terms, seed=self.seed)

    def gather(self, ledger: Ledger, pool: WorkerPool, on_progress: Callable[[LawProgress], None]) -> None:
        """Add to the ledger until the goal is reached; see `LawRun`."""
        pool.resume()
        self.law.run(ledger, on_progress, pool)

    def result(self, ledger: Ledger, parts: Parts) -> dict[str, Any]:
        """The result as one JSON object, described by `result.schema.json` in this folder."""
        law = result_of_run(ledger.content, resolve=self.goal.resolve, planned=self.goal.tokens)
        return whole_result(law, parts.found, parts.violations)

    def _direct(self, pool: WorkerPool, part: str) -> None:
        """What the pool does while a part is measured."""
        needed = self.goal.needed(Terms(alpha=self.alpha, tolerance=self.tolerance or 0.0))
        if part == TIMED:
            pool.pause()
        elif not pool.has_begun and needed is not None:
            pool.begin(self.law.plan(None, needed), seed=self.seed, part=0)
        else:
            pool.resume()

    def _tolerance(self, parts: Parts) -> float:
        if parts.tolerance is not None and self.subject.engine is None:
            return parts.tolerance
        usual = TOLERANCES.get(self.logits_dtype(), COARSE)
        # Another engine rounds in an order of its own, which an audit of this one knows nothing of.
        return max(usual, parts.tolerance or 0.0)

    def logits_dtype(self) -> str:
        """Name of the type of the target's logits."""
        if self.sharded is not None:
            self.sharded.tell(RankTask.FEED)
        logits = feed(self.subject.target, self.prompts[0].tokens[-1:], start=0, width=1)
        mx.eval(logits)
        return str(logits.dtype).removeprefix("mlx.core.")
