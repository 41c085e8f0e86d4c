"""What one `eredu validate` was asked for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu_validation.command.output import Outputs

AUTO = "auto"
"""What `--workers` says where the number is to be chosen."""


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
        placement: As `eredu.load` takes it.
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
