"""What is asked: sampling, one request, and the schedule. Plain values, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from eredu_reference.constraint import Constraint
from eredu_reference.errors import RequestError


class AcceptanceRule(StrEnum):
    """How proposals are verified."""

    REJECTION = "rejection"
    """Leviathan et al. 2023 (arXiv 2211.17192)."""
    BLOCK = "block"
    """Block verification, Sun et al. 2024 (arXiv 2403.10444)."""
    COUPLED = "coupled"
    """Shared noise, Daliri et al. 2024 (arXiv 2408.07978)."""
    GREEDY = "greedy"
    """Temperature 0, whatever was asked for: argmax, and no randomness."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """From raw logits to the processed distribution; the fields stand in the order in which they apply.

    Attributes:
        logit_bias: Added to the logits of the given ids.
        repetition_penalty: r > 0; positive logits of ids seen lately are divided by it, the others multiplied.
        repeat_last_n: How many of the last tokens of prompt and output "lately" means; 0 is all.
        frequency_penalty: Subtracted once for each time that an id was generated.
        presence_penalty: Subtracted from each id that was generated at all.
        top_k: Logits not below the k-th largest stay; 0 keeps all.
        top_p: The smallest head whose mass reaches it stays, ties with its last id included; 1 keeps all.
        min_p: Ids less probable than this times the most probable one go; 0 keeps all.
        temperature: Divides what is left; 0 is the argmax, lowest id on ties.
    """

    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or not 0 <= self.min_p <= 1 or self.repetition_penalty <= 0:
            raise RequestError(f"{self} is no sampling: temperature >= 0, 0 < top_p <= 1, 0 <= min_p <= 1, r > 0")


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How ids read as text.

    Attributes:
        vocabulary: Bytes of each id.
        stop_strings: Texts that end the output and are cut from it.
    """

    vocabulary: tuple[bytes, ...]
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request: everything that its output may depend on.

    Attributes:
        prompt: Token ids, at least one.
        max_tokens: Output tokens at the most.
        sampling: The processed distribution.
        seed: 64-bit root of the randomness.
        batch_index: Number of the request in a call whose requests share one seed; None where the seed is its own.
        acceptance: The rule where the temperature is above 0.
        max_proposals: K; 0 is plain decoding.
        lookahead_depth: Tokens of a lookahead branch, its guess at the bonus included; None is K + 1.
        eos_ids: Ids that end the output.
        stop_sequences: Sequences of ids that end the output.
        constraint: The grammar of the output, or None.
        text: How ids read as text, or None where only ids are wanted.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = Sampling()
    seed: int = 0
    batch_index: int | None = None
    acceptance: AcceptanceRule = AcceptanceRule.REJECTION
    max_proposals: int = 2
    lookahead_depth: int | None = None
    eos_ids: frozenset[int] = frozenset()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    constraint: Constraint | None = None
    text: TextOptions | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "acceptance", AcceptanceRule(self.acceptance))
        object.__setattr__(self, "eos_ids", frozenset(self.eos_ids))
        if not self.prompt:
            raise RequestError("the prompt was empty; the first row needs at least one token to stand on")
        if self.max_tokens < 1 or self.max_proposals < 0:
            raise RequestError(f"max_tokens {self.max_tokens} must be >= 1, max_proposals {self.max_proposals} >= 0")
        if self.acceptance is AcceptanceRule.GREEDY:
            raise RequestError("greedy is temperature 0, not an acceptance rule to ask for")
        if not all(self.stop_sequences):
            raise RequestError("a stop sequence was empty, which would end the output before any token")

    @property
    def branch_length(self) -> int:
        """Tokens that a lookahead branch may plan for."""
        return self.max_proposals + 1 if self.lookahead_depth is None else self.lookahead_depth


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What may be drafted ahead.

    Attributes:
        lookahead: Whether a branch is drafted while a verification is in flight.
        adaptive_window: Resolved branches between two decisions whether they pay; None never decides.
        prefill_chunk: Prompt tokens that one prefill step feeds at the most.
    """

    lookahead: bool = True
    adaptive_window: int | None = 8
    prefill_chunk: int = 512
