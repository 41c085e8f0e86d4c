"""One `eredu validate` from its request to its exit status."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eredu.checkpoints.names import cache_directory, resolve_checkpoint
from eredu.commands.console import message_console, versions
from eredu.commands.pair import Pair
from eredu.commands.validation_output import EvidenceBar, Outputs
from eredu.evidence import Terms
from eredu.options import GenerationOptions, MtpSchedulerOptions

if TYPE_CHECKING:
    from eredu.validation.law import Goal
    from eredu.validation.session import Session

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
        place: Folder of the evidence, or None.
        skip: Parts to leave out.
        options: Sampling, rule, K, output length.
        schedule: The schedule.
        dtype: As `eredu.load` takes it.
        placement: Likewise.
        outputs: Where the result goes.
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
    place: Path | None
    skip: frozenset[str]
    options: GenerationOptions
    schedule: MtpSchedulerOptions
    dtype: str
    placement: str
    outputs: Outputs

    @property
    def models(self) -> str:
        """Arguments of `eredu generate` that name the models."""
        named = {"--model": self.target, "--assistant": self.assistant, "--head": self.head, "--dtype": self.dtype}
        return shlex.join(word for name, value in named.items() if value is not None for word in (name, value))


def run_validation(request: ValidationRequest) -> int:
    """Run a validation; return the exit status.

    Raises what loading, options and ledgers raise; `KeyboardInterrupt` again, once the evidence so far is told.
    """
    from eredu.validation.law import Goal  # noqa: PLC0415 (MLX, only for this)

    goal = Goal.of(request.tokens, request.resolve)
    Terms(alpha=request.alpha, tolerance=request.tolerance or 0.0)
    request.outputs.check()
    session = prepare(request, goal)
    interrupted = False
    with EvidenceBar(request.tokens) as bar:
        ledger, parts = session.open(bar.part)
        with ledger:
            try:
                bar.needed(goal.needed(ledger.book.header.terms))
                session.gather(ledger, bar.law)
            except KeyboardInterrupt:
                interrupted = True
            result = session.result(ledger, parts)
    request.outputs.give(result)
    message_console().print(f"the evidence is kept: --resume {shlex.quote(str(session.place))}", soft_wrap=True)
    if interrupted:
        raise KeyboardInterrupt
    return int(result["verdict"]["exit_status"])


def prepare(request: ValidationRequest, goal: Goal) -> Session:
    """Load the subject and its prompts. Raises `OptionError` for settings that cannot be validated."""
    from eredu.validation.prompts import PROMPTS, encode_prompts, prompts_digest, read_prompts  # noqa: PLC0415
    from eredu.validation.session import Session  # noqa: PLC0415
    from eredu.validation.subject import Subject  # noqa: PLC0415

    texts = PROMPTS if request.prompts is None else read_prompts(request.prompts)
    pair = Pair.load(
        request.target, request.assistant, dtype=request.dtype, placement=request.placement, head=request.head
    )
    pair.require_drafter()
    subject = Subject(model=pair.model, assistant=pair.assistant, options=request.options, schedule=request.schedule)
    room = subject.target.context - request.options.max_tokens
    prompts = encode_prompts(
        texts, pair.tokenizer, rows=subject.target.vocabulary_size, longest=max(1, min(LONGEST, room))
    )
    fingerprint = subject.fingerprint(
        head=None if request.head is None else resolve_checkpoint(request.head),
        versions=versions(),
        settings={"dtype": request.dtype, "prompts": prompts_digest(prompts)},
    )
    return Session(
        subject=subject,
        prompts=prompts,
        fingerprint=fingerprint,
        goal=goal,
        alpha=request.alpha,
        tolerance=request.tolerance,
        seed=request.seed,
        batch=request.batch,
        place=request.place or cache_directory() / "validations" / f"{fingerprint.target[:12]}-{request.seed}",
        skip=request.skip,
        models=request.models,
    )
