"""One run: the checkpoints, the requests of one call and its schedule, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from eredu_conformance.protocol.errors import MessageError
from eredu_conformance.protocol.options import RunOptions, Schedule


class Finish(StrEnum):
    """Why an output ended."""

    STOP = "stop"
    GRAMMAR = "grammar"
    EOS = "eos"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where the models lie: crafted ones, or published ones where the subject has `Feature.CHECKPOINTS`.

    Attributes:
        target: Directory of the target; a published one may also be a file, such as a GGUF.
        draft: Directory (or file) of the draft model, or None where no run speculates with one.
        heads: Directory of the prediction heads that propose, which is the target's own where it has them inside;
            None where no run speculates with heads.
    """

    target: Path
    draft: Path | None = None
    heads: Path | None = None

    def __post_init__(self) -> None:
        if self.draft is not None and self.heads is not None:
            raise MessageError(f"a run names two drafters, {self.draft} and the heads of {self.heads}; it takes one")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request of a call.

    Attributes:
        prompt: Ids, at least one.
        options: What is asked.
        cancel_after: Cancel the request as soon as this many tokens were published; None never.
    """

    prompt: tuple[int, ...]
    options: RunOptions = field(default_factory=RunOptions)
    cancel_after: int | None = None

    def __post_init__(self) -> None:
        if not self.prompt:
            raise MessageError("a request has an empty prompt; the protocol needs at least one id")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One call of the engine.

    Attributes:
        checkpoint: The models.
        requests: One or more requests, decoded together.
        schedule: How they are scheduled.
        seed: Seed of the call, for requests without their own; None leaves the subject free.
        choices: Injected randomness. Decision i of the run takes outcome `choices[i]`, a decision past the end takes
            its first possible outcome, and the result lists the weights of every decision. So a harness walks the whole
            tree of outcomes by repeating the run. None draws as usual. One request only.
    """

    checkpoint: Checkpoint
    requests: tuple[Request, ...]
    schedule: Schedule = field(default_factory=Schedule)
    seed: int | None = None
    choices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.requests:
            raise MessageError("a run has no request; the protocol needs at least one")
        if self.choices is not None and len(self.requests) > 1:
            raise MessageError(f"a run with injected randomness has {len(self.requests)} requests; it takes one")

    @property
    def speculates(self) -> bool:
        """Whether any request asks for proposals."""
        return any(request.options.max_proposals > 0 for request in self.requests)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One verification: what was settled before its tokens were drawn, and how many of them became output.

    Attributes:
        proposals: Proposals that were verified.
        emitted: Tokens that became output.
        promoted: Whether a lookahead branch supplied the first proposals.
    """

    proposals: int
    emitted: int
    promoted: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one request got.

    Attributes:
        tokens: Output ids without the prompt, a terminal id included.
        finish: Why it ended.
        statistics: Counters by name, or None.
        rounds: The rounds that emitted the tokens, in order, or None where the engine does not tell them.
    """

    tokens: tuple[int, ...]
    finish: Finish
    statistics: Mapping[str, Any] | None = None
    rounds: tuple[Round, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run got.

    Attributes:
        answers: One for each request, in their order.
        trace: The engine's trace, one object an event, or None.
        decisions: Weights of the outcomes of each decision taken, in order, where `choices` were given.
    """

    answers: tuple[Answer, ...]
    trace: tuple[Mapping[str, Any], ...] | None = None
    decisions: tuple[tuple[float, ...], ...] | None = None
