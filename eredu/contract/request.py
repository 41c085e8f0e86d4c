"""A request as an executor opens it."""

from __future__ import annotations

from dataclasses import dataclass

from eredu.contract.constraint import Constraint
from eredu.contract.options import GenerationOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.terminal import OutputText


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request, resolved: everything that its output may depend on.

    Attributes:
        index: Number of the request within its call.
        prompt: Prompt token ids, at least one.
        options: The caller's options; `eos_ids` are filled in.
        randomness: Root of the request's draws.
        constraint: State of the grammar before the first output token, or None.
        text: Streaming text and stop strings before the first output token, or None where only ids are wanted.
    """

    index: int
    prompt: tuple[int, ...]
    options: GenerationOptions
    randomness: RequestRandomness
    constraint: Constraint | None = None
    text: OutputText | None = None
