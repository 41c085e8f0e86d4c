"""One `eredu validate` from its request to its exit status."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eredu.checkpoints.names import cache_directory, resolve_checkpoint
from eredu.commands.console import ExitStatus, message_console, versions
from eredu.commands.pair import Pair
from eredu.contract.errors import EngineError, EreduError
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu_validation.command.output import EvidenceBar, Outputs
from eredu_validation.command.workers import (
    crew_of,
    follow,
    join_ranks,
    lockstep_of,
    noting_loss,
    refusing_loss,
    wanted_workers,
)
from eredu_validation.evidence import Fingerprint, Terms

if TYPE_CHECKING:
    from eredu.commands.foreign_engine import ConformanceEngine
    from eredu_validation.measures.law import Goal
    from eredu_validation.measures.session import Session
    from eredu_validation.workers.sharded_ranks import Lockstep

LEDGER_NAME = "ledger.jsonl"
VALIDATION_SCHEMA = "eredu-validation/1"
LONGEST = 2048
"""Prompt tokens at the most."""


@dataclass(frozen=True, kw_only=True)
class ValidationRequest:
    """What the command line asked for.

    Attributes:
        target: Name or path.
        assistant: Name or path of a draft model, or None.
        head: Directory of heads, or None.
        prompts: File of prompts, or None.
        tokens: Tokens to draw, or None.
        resolve: Total variation to resolve, or None.
        alpha: Chance of a false report.
        tolerance: Total variation that arithmetic may cause; None measures it.
        seed: Root of all randomness.
        batch: Requests decoded together.
        workers: Processes that draw, or `auto`.
        shard: How ranks hold the target together: `tensor`, `pipeline`, or None where each holds all of it.
        place: Folder of the evidence, or None.
        skip: Parts to leave out.
        options: Sampling, rule, K, output length.
        schedule: The schedule.
        dtype: As `eredu.load` takes it.
        placement: Likewise.
        outputs: Where the result goes.
        subject: Another engine that decodes, by name or command; None for eredu.
        subject_timeout: Seconds that it may take for one answer, where it is a program.
        given: Names of the options that stood on the command line.
    """

    target: str
    assistant: str | None
    head: str | None
    prompts: Path | None
    tokens: int | None
    resolve: float | None
    alpha: float
    tolerance: float | None
    seed: int
    batch: int
    workers: str
    shard: str | None
    place: Path | None
    skip: frozenset[str]
    options: GenerationOptions
    schedule: MtpSchedulerOptions
    dtype: str
    placement: str
    outputs: Outputs
    subject: str | None = None
    subject_timeout: float = 600.0
    given: frozenset[str] = frozenset()

    @property
    def models(self) -> str:
        """Arguments of `eredu generate` that name the models."""
        named = {"--model": self.target, "--assistant": self.assistant, "--head": self.head, "--dtype": self.dtype}
        return shlex.join(word for name, value in named.items() if value is not None for word in (name, value))


def run_validation(request: ValidationRequest) -> int:
    """Run a validation; return the exit status.

    Raises what loading, options and ledgers raise; `KeyboardInterrupt` again, once the evidence so far is told.
    """
    from eredu_validation.measures.law import Goal  # noqa: PLC0415 (MLX, only for this)

    goal = Goal.of(request.tokens, request.resolve)
    Terms(alpha=request.alpha, tolerance=request.tolerance or 0.0)
    wanted_workers(request.workers)
    lockstep = lockstep_of(request)
    if lockstep is not None:
        request = replace(request, seed=lockstep.same_seed(request.seed))
    ranks = join_ranks(request) if lockstep is None else []
    if ranks is None or (lockstep is not None and not lockstep.leads):
        return ExitStatus.OK if lockstep is None else follow(request, lockstep)
    request.outputs.check()
    session = prepare(request, goal, lockstep)
    interrupted = False
    with closing(session.subject), crew_of(request, session, ranks) as crew, EvidenceBar(request.tokens) as bar:
        try:
            with refusing_loss(lockstep):
                ledger, parts = session.open(crew, bar.part)
        except KeyboardInterrupt:
            if session.place.exists():
                place = shlex.quote(str(session.place))
                message_console().print(f"the parts measured so far are kept: --resume {place}", soft_wrap=True)
            raise
        with ledger:
            try:
                bar.needed(goal.needed(ledger.book.header.terms))
                with noting_loss(lockstep, crew):
                    session.gather(ledger, crew, bar.law)
            except KeyboardInterrupt:
                interrupted = True
            except EreduError as error:
                if session.subject.engine is None:
                    raise
                raise EngineError(f"{error}. {_kept(session, ledger.book.tally.tokens)}") from error
            result = session.result(ledger, parts)
    request.outputs.give(result)
    message_console().print(f"the evidence is kept: --resume {shlex.quote(str(session.place))}", soft_wrap=True)
    if interrupted:
        raise KeyboardInterrupt
    return int(result["verdict"]["exit_status"])


def prepare(request: ValidationRequest, goal: Goal, lockstep: Lockstep | None = None) -> Session:
    """Load the subject and its prompts. Raises `OptionError` for settings that cannot be validated."""
    if request.subject is None:
        return _prepare(request, goal, None, lockstep)
    from eredu.commands.engine_opening import engine_of  # noqa: PLC0415 (only for another engine)

    engine = engine_of(request)
    try:
        return _prepare(request, goal, engine, lockstep)
    except BaseException:
        engine.close()
        raise


def _kept(session: Session, tokens: int) -> str:
    return f"The evidence of {tokens:,} tokens before is kept: --resume {shlex.quote(str(session.place))}"


def _prepare(
    request: ValidationRequest, goal: Goal, engine: ConformanceEngine | None, lockstep: Lockstep | None
) -> Session:
    from eredu_validation.measures.prompts import PROMPTS, encode_prompts, prompts_digest, read_prompts  # noqa: PLC0415
    from eredu_validation.measures.session import Session  # noqa: PLC0415
    from eredu_validation.measures.subject import Subject  # noqa: PLC0415

    texts = PROMPTS if request.prompts is None else read_prompts(request.prompts)
    pair = Pair.load(
        request.target,
        request.assistant,
        dtype=request.dtype,
        placement=request.placement,
        head=request.head,
        mtp=engine is None or engine.report.drafter != "none",
        split=None if lockstep is None or request.shard is None else lockstep.split(request.shard),
    )
    options = request.options
    if engine is None:
        pair.require_drafter()
    else:
        engine = engine.ending_at(pair.model.backend.eos_ids)
        options = replace(options, max_proposals=engine.report.proposals)
    subject = Subject(
        model=pair.model, assistant=pair.assistant, options=options, schedule=request.schedule, engine=engine
    )
    room = subject.target.context - request.options.max_tokens
    prompts = encode_prompts(
        texts, pair.tokenizer, rows=subject.target.vocabulary_size, longest=max(1, min(LONGEST, room))
    )
    fingerprint = subject.fingerprint(
        head=None if request.head is None else resolve_checkpoint(request.head),
        versions=versions(),
        settings={
            "dtype": request.dtype,
            "prompts": prompts_digest(prompts),
            **({} if engine is None else engine.settings),
            **({} if lockstep is None else {"shard": f"{request.shard} over {lockstep.group.size()} ranks"}),
        },
    )
    if engine is not None:
        engine.probe(prompts[0].tokens)
    return Session(
        subject=subject,
        prompts=prompts,
        fingerprint=fingerprint,
        goal=goal,
        alpha=request.alpha,
        tolerance=request.tolerance,
        seed=request.seed,
        batch=request.batch,
        place=request.place or cache_directory() / "validations" / _folder(request, fingerprint),
        skip=request.skip,
        models=request.models,
        lockstep=lockstep,
    )


def _folder(request: ValidationRequest, subject: Fingerprint) -> str:
    """Name of a validation's folder among others: the target, drafter and settings, and the seed."""
    engine = "" if request.subject is None else re.sub(r"[^\w.-]+", "-", request.subject)[-40:] + "-"
    rest = hashlib.sha256(json.dumps([subject.drafter, subject.record()["settings"]]).encode()).hexdigest()
    return f"{subject.target[:12]}-{rest[:6]}-{engine}{request.seed}"
