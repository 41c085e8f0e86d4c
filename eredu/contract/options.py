"""What a caller may choose: validated once, immutable, complete.

Sampling (`SamplingOptions`), one request (`GenerationOptions`) and the schedule (`MtpSchedulerOptions`) are
kept apart because they answer to three different people: the model's, the request's and the machine's owner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from eredu.contract.errors import OptionError

MAX_PROPOSALS = 64
"""Upper bound on the proposals of one round: past it no published drafter gains anything."""
USUAL_PROPOSALS = 2
"""K unless another is asked for: of those measured it is the best, or close to it, on every machine and drafter."""


class AcceptanceRule(StrEnum):
    """How proposals are verified when the temperature is above 0."""

    REJECTION = "rejection"
    """Leviathan et al. 2023 (arXiv 2211.17192): accept x iff u*q(x) < p(x), else draw from (p - q)+."""
    BLOCK = "block"
    """Block verification, Sun et al. 2024 (arXiv 2403.10444)."""
    COUPLED = "coupled"
    """One Gumbel vector for target and drafter, Daliri et al. 2024 (arXiv 2408.07978)."""


AcceptanceName = Literal["rejection", "block", "coupled"]
"""The same by name, for calls that type checkers follow."""


def _require(ok: bool, message: str) -> None:  # noqa: FBT001
    if not ok:
        raise OptionError(message)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _require_number(name: str, value: object, low: float, high: float, hint: str) -> None:
    _require(
        _is_number(value) and low <= float(value) <= high,  # type: ignore[arg-type]
        f"{name} was {value!r}; expected a number from {low:g} to {high:g}: {hint}",
    )


def _require_count(name: str, value: object, low: int, high: int, hint: str) -> None:
    _require(
        isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
        f"{name} was {value!r}; expected a whole number from {low} to {high}: {hint}",
    )


def _require_ids(name: str, ids: Iterable[object]) -> None:
    for token in ids:
        _require_count(f"an id of {name}", token, 0, 2**31 - 1, "ids are vocabulary rows")


def _require_flag(name: str, value: object) -> None:
    _require(isinstance(value, bool), f"{name} was {value!r}; expected True or False")


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """The map from raw logits to the processed distribution, in the order in which it is applied.

    Attributes:
        temperature: 0 is greedy; otherwise the last step divides the logits by it.
        top_k: Keep the logits not below the k-th largest; 0 keeps all.
        top_p: Keep the smallest head of the distribution whose mass reaches it; 1 keeps all.
        min_p: Drop ids less probable than `min_p` times the most probable one; 0 keeps all.
        logit_bias: Added to the logits of the given ids.
        repetition_penalty: Divides positive and multiplies negative logits of ids seen lately; 1 is off.
        repeat_last_n: How many of the last tokens (prompt and output) "lately" means; 0 is all of them.
        frequency_penalty: Subtracted once for each time an id was generated.
        presence_penalty: Subtracted from each id that was generated at all.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    repetition_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        _require_number("temperature", self.temperature, 0, 100, "0 is greedy, 1 is the model's own distribution")
        _require_count("top_k", self.top_k, 0, 2**31 - 1, "0 keeps every id")
        _require_number("top_p", self.top_p, 0, 1, "1 keeps every id")
        _require(self.top_p > 0, "top_p was 0, which keeps no id at all; use temperature 0 for greedy decoding")
        _require_number("min_p", self.min_p, 0, 1, "0 keeps every id")
        _require_number("repetition_penalty", self.repetition_penalty, 1e-3, 1e3, "1 is off")
        _require_count("repeat_last_n", self.repeat_last_n, 0, 2**31 - 1, "0 looks at the whole history")
        _require_number("frequency_penalty", self.frequency_penalty, -100, 100, "0 is off")
        _require_number("presence_penalty", self.presence_penalty, -100, 100, "0 is off")
        for token, bias in self.logit_bias.items():
            _require_count("a logit_bias id", token, 0, 2**31 - 1, "ids are vocabulary rows")
            _require_number(f"logit_bias of id {token}", bias, -1e9, 1e9, "it is added to the logit")
        object.__setattr__(self, "logit_bias", MappingProxyType(dict(self.logit_bias)))

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable id is taken and no randomness is read."""
        return self.temperature == 0

    @property
    def has_penalties(self) -> bool:
        """Whether the distribution depends on which tokens came before (beyond the model's own context)."""
        return self.repetition_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """One request: how long, how sampled, how verified, with how many proposals.

    Attributes:
        max_tokens: Output tokens at the most.
        sampling: The processed distribution.
        seed: Root of the request's randomness, 0 to 2**64 - 1. None takes the call's seed and the request's
            index, so that requests of one batch differ.
        acceptance: The rule for stochastic verification. Greedy requests need none and ignore it.
        max_proposals: K, the proposals asked for in each round; 0 is plain decoding.
        lookahead_depth: Tokens of a lookahead branch, the guess at the bonus included; None means K + 1.
        eos_ids: Ids that end the output. None takes the checkpoint's own.
        stop_sequences: Token sequences that end the output.
        stop_strings: Texts that end the output; they are cut from the visible text.
    """

    max_tokens: int = 256
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    seed: int | None = None
    acceptance: AcceptanceRule = AcceptanceRule.REJECTION
    max_proposals: int = USUAL_PROPOSALS
    lookahead_depth: int | None = None
    eos_ids: frozenset[int] | None = None
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # rule: terminal.budget-counts-tokens
        _require_count("max_tokens", self.max_tokens, 1, 2**31 - 1, "it bounds the output")
        if self.seed is not None:
            _require_count("seed", self.seed, 0, 2**64 - 1, "it is the 64-bit root of the randomness")
        try:
            object.__setattr__(self, "acceptance", AcceptanceRule(self.acceptance))
        except ValueError:
            rules = ", ".join(AcceptanceRule)
            raise OptionError(f"acceptance was {self.acceptance!r}; expected one of {rules}") from None
        _require_count(
            "max_proposals (K)", self.max_proposals, 0, MAX_PROPOSALS, "0 is plain decoding, 2 to 8 is usual"
        )
        if self.lookahead_depth is not None:
            _require_count(
                "lookahead_depth",
                self.lookahead_depth,
                2,
                MAX_PROPOSALS + 1,
                "a branch is a guess at the bonus and at least one proposal behind it",
            )
        if self.eos_ids is not None:
            _require_ids("eos_ids", self.eos_ids)
            object.__setattr__(self, "eos_ids", frozenset(self.eos_ids))
        object.__setattr__(self, "stop_sequences", tuple(tuple(s) for s in self.stop_sequences))
        for sequence in self.stop_sequences:
            _require(bool(sequence), "stop_sequences holds an empty sequence, which would stop before any token")
            _require_ids("stop_sequences", sequence)
        _require(
            not isinstance(self.stop_strings, str),
            f"stop_strings was the text {self.stop_strings!r}; expected a sequence of texts: put it in a tuple",
        )
        object.__setattr__(self, "stop_strings", tuple(self.stop_strings))
        for text in self.stop_strings:
            _require(isinstance(text, str), f"stop_strings holds {text!r}; expected texts")
            _require(bool(text), "stop_strings holds an empty string, which would stop before any token")

    @property
    def branch_length(self) -> int:
        """Tokens that a lookahead branch of this request plans for at the most."""
        return self.max_proposals + 1 if self.lookahead_depth is None else self.lookahead_depth


@dataclass(frozen=True, kw_only=True)
class MtpSchedulerOptions:
    """The schedule: none of these can change a token under `coupled` or greedy decoding.

    Attributes:
        lookahead: Whether a branch is drafted while a verification is in flight.
        adaptive_lookahead: Whether a request whose branches do not pay stops drafting them.
        adaptive_window: Resolved branches after which the adaptive decision is taken, again and again.
        max_in_flight: Verifications in flight at once, over all requests.
        max_branches: Lookahead branches alive at once, over all requests.
        max_group: Requests that one submission verifies together at the most; None has no bound but `max_in_flight`.
        prefill_chunk: Prompt tokens that one prefill turn feeds at the most.
    """

    lookahead: bool = True
    adaptive_lookahead: bool = True
    adaptive_window: int = 8
    max_in_flight: int = 4
    max_branches: int = 4
    max_group: int | None = None
    prefill_chunk: int = 512

    def __post_init__(self) -> None:
        _require_flag("lookahead", self.lookahead)
        _require_flag("adaptive_lookahead", self.adaptive_lookahead)
        _require_count("adaptive_window", self.adaptive_window, 1, 10**6, "resolved branches between two decisions")
        _require_count("max_in_flight", self.max_in_flight, 1, 1024, "at least one verification must run")
        _require_count("max_branches", self.max_branches, 1, 1024, "turn branches off with lookahead=False")
        if self.max_group is not None:
            _require_count("max_group", self.max_group, 1, 1024, "1 submits every request alone, None bounds nothing")
        _require_count("prefill_chunk", self.prefill_chunk, 1, 2**20, "tokens fed in one prefill turn")

    def with_lookahead(self, enabled: bool) -> MtpSchedulerOptions:  # noqa: FBT001
        """A copy with lookahead on or off. `with_lookahead(False)` is the reference setting of benchmarks."""
        return replace(self, lookahead=enabled)
