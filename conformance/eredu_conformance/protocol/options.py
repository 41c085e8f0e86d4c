"""What a run may ask of a subject: the options of one request and the schedule of a call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

Grammar = tuple[tuple[tuple[int, int], ...], ...]
"""A finite automaton over ids. Entry s lists the (id, next state) that state s allows; the output begins in state 0. A
state that allows nothing is complete and ends the output with reason `grammar`; other ids are masked out."""


class Acceptance(StrEnum):
    """How proposals are verified at a temperature above 0."""

    REJECTION = "rejection"
    """Accept x iff u * q(x) < p(x), else draw from (p - q)+ (arXiv 2211.17192)."""
    BLOCK = "block"
    """Block verification (arXiv 2403.10444)."""
    COUPLED = "coupled"
    """One Gumbel vector for target and drafter (arXiv 2408.07978): equal to plain decoding for one seed."""
    MATCHING = "matching"
    """Draw the target's token independently and accept a proposal iff it is that token."""

    @classmethod
    def specified(cls) -> tuple[Acceptance, ...]:
        """The rules that the spec states and its reference has; `matching` is other engines' own."""
        return tuple(rule for rule in cls if rule is not cls.MATCHING)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One request's options. Every default is neutral: it asks nothing of a subject.

    Attributes:
        max_tokens: Output tokens at the most, at least 1.
        temperature: 0 is greedy, lowest id on ties; otherwise the last step divides the logits by it.
        top_k: Keep the logits not below the k-th largest; 0 keeps all.
        top_p: Keep the smallest head whose mass reaches it; 1 keeps all.
        min_p: Drop ids less probable than this times the most probable one; 0 keeps all.
        logit_bias: Pairs (id, value added to its logit), by rising id.
        repetition_penalty: Divides positive and multiplies negative logits of ids seen lately; 1 is off.
        repeat_last_n: How many of the last tokens (prompt and output) "lately" means; 0 is all.
        frequency_penalty: Subtracted once for each time an id was generated.
        presence_penalty: Subtracted from each id that was generated at all.
        seed: Root of the request's randomness, 0 to 2**64 - 1; None leaves it to the call's seed.
        max_proposals: K, the proposals of one round at the most; 0 is plain decoding.
        acceptance: The verification rule; None takes the subject's own default.
        lookahead_depth: Tokens of a lookahead branch, the guess at the bonus included; None is the default.
        eos_ids: Ids that end the output; the id itself is the last token of the answer.
        stop_sequences: Id sequences that end the output; their ids are in the answer.
        grammar: A constraint, see `Grammar`.
    """

    max_tokens: int = 16
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    repetition_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    max_proposals: int = 0
    acceptance: Acceptance | None = None
    lookahead_depth: int | None = None
    eos_ids: tuple[int, ...] = ()
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    grammar: Grammar | None = None

    def asked(self) -> frozenset[str]:
        """Names of the options that differ from their neutral value."""
        return _asked(self, _NEUTRAL_OPTIONS)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a call is scheduled. None of it may change the law of a token.

    Attributes:
        lookahead: Whether branches are drafted while a verification is in flight.
        adaptive_lookahead: Whether a request whose branches don't pay stops drafting them.
        adaptive_window: Resolved branches between two adaptive decisions; None is the default.
        prefill_chunk: Prompt tokens of one prefill step at the most; None is the default.
        max_in_flight: Verifications in flight at once; None is the default.
        max_branches: Branches alive at once; None is the default.
        max_group: Requests verified in one submission at the most; None is the default.
    """

    lookahead: bool = False
    adaptive_lookahead: bool = False
    adaptive_window: int | None = None
    prefill_chunk: int | None = None
    max_in_flight: int | None = None
    max_branches: int | None = None
    max_group: int | None = None

    def asked(self) -> frozenset[str]:
        """Names of the settings that differ from their neutral value."""
        return _asked(self, _NEUTRAL_SCHEDULE)


def _asked(value: RunOptions | Schedule, neutral: RunOptions | Schedule) -> frozenset[str]:
    names = (item.name for item in fields(value))
    return frozenset(name for name in names if getattr(value, name) != getattr(neutral, name))


_NEUTRAL_OPTIONS = RunOptions()
_NEUTRAL_SCHEDULE = Schedule()
