"""State of one request on the device: committed tokens, the target's cache, and the round that is running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from eredu.contract.request import GenerationRequest
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.placement import Completion
from eredu.mlx.summary import Summary
from eredu.mlx.taps import Recording


@dataclass(slots=True)
class MlxVerification:
    """A verification on its way.

    Attributes:
        summary: What the host will read, in one synchronisation.
        tokens: The target's own token at each row, shape (rows,), uint32, where the rule has one; else None.
        recorded: What the tapped modules saw of its inputs, where the drafter reads hidden rows; else None.
        completion: Computes it, and keeps caches and block alive meanwhile.
    """

    summary: Summary
    tokens: mx.array | None
    recorded: Recording | None
    completion: Completion


@dataclass(slots=True)
class MlxSequence:
    """One request on the device. It is the `History` that drafters are given.

    Attributes:
        request: The request.
        tokens: Prompt and committed output.
        target: The target's caches; between rounds they hold all tokens but the last, and one more while `ahead` runs.
        drafter: The drafter's own state; only the drafter looks into it.
        verified: The verification whose rows the next commit settles.
        ahead: A verification of the next, empty block, started before the token that leads it reached the host.
        running: Completions not yet known to be over.
    """

    request: GenerationRequest
    tokens: list[int]
    target: SequenceCache
    drafter: Any
    verified: MlxVerification | None = None
    ahead: MlxVerification | None = None
    running: list[Completion] = field(default_factory=list)

    @property
    def output(self) -> Sequence[int]:
        """Committed output tokens."""
        return self.tokens[len(self.request.prompt) :]

    @property
    def position(self) -> int:
        """Output position of the next token."""
        return len(self.tokens) - len(self.request.prompt)
