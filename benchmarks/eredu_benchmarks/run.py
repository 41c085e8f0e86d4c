"""One measured decoding of one prompt, by eredu's loop or a peer's."""

from __future__ import annotations

from dataclasses import dataclass

from eredu.contract.statistics import RequestStatistics
from eredu_benchmarks.setting import Setting


@dataclass(frozen=True, slots=True)
class VerifiedRound:
    """One verification.

    Attributes:
        proposals: Proposals verified.
        accepted: How many the acceptance rule took.
        emitted: Output tokens that came of it, the end of the output regarded.
    """

    proposals: int
    accepted: int
    emitted: int


@dataclass(frozen=True, slots=True)
class Timing:
    """When the tokens of an output came.

    Attributes:
        first_s: Seconds from the request to the end of its first round: the prompt, and the first tokens.
        first_tokens: Tokens of that round.
        total_s: Seconds from the request to its last token.
        total_tokens: Tokens of the output.
    """

    first_s: float
    first_tokens: int
    total_s: float
    total_tokens: int

    @property
    def decoding_s(self) -> float:
        """Seconds behind the first round."""
        return self.total_s - self.first_s

    @property
    def decoding_tokens(self) -> int:
        """Tokens behind the first round."""
        return self.total_tokens - self.first_tokens


@dataclass(frozen=True, slots=True)
class Run:
    """What one decoding gave.

    Attributes:
        setting: How it was decoded.
        repeat: In which repeat, from 0.
        prompt: Name of the prompt.
        tokens: Output ids.
        timing: When they came.
        rounds: Its verifications; empty for peers, which do not tell.
        statistics: Its statistics; None for peers.
    """

    setting: Setting
    repeat: int
    prompt: str
    tokens: tuple[int, ...]
    timing: Timing
    rounds: tuple[VerifiedRound, ...] = ()
    statistics: RequestStatistics | None = None
