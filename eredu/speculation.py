"""Speculation as a value: what a caller wishes of a drafter, and what it comes to with one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from eredu.contract.capability import MtpCapability, MtpCheckpointKind, MtpState
from eredu.contract.errors import CapabilityError, OptionError
from eredu.contract.options import (
    USUAL_PROPOSALS,
    AcceptanceName,
    AcceptanceRule,
    GenerationOptions,
    MtpSchedulerOptions,
)
from eredu.results import SpeculationReport

if TYPE_CHECKING:
    from eredu.engine.mlx_backend import Assistant


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """How a call speculates. It is done as it stands here, or refused: it never turns into plain decoding.

    Attributes:
        assistant: A draft model: its name or path, or one in memory. None takes the one that the model was loaded
            with, else the heads in the target's checkpoint.
        proposals: K, the proposals asked for in each round. 0 is plain decoding, for which no drafter is needed, with
            the draws of `acceptance`: the reference that `coupled` equals token by token.
        acceptance: An `AcceptanceRule` or its name: `rejection`, `block` or `coupled`; greedy requests ignore it.
        lookahead: Whether a branch is drafted while a verification is in flight.
        adaptive_lookahead: Whether a request whose branches do not pay stops drafting them.
        lookahead_depth: Tokens of a branch, the guess at the bonus included; None means K + 1.
    """

    assistant: str | Path | Assistant | None = None
    proposals: int = USUAL_PROPOSALS
    acceptance: AcceptanceRule | AcceptanceName = AcceptanceRule.REJECTION
    lookahead: bool = True
    adaptive_lookahead: bool = True
    lookahead_depth: int | None = None
    request: GenerationOptions = field(init=False, repr=False, compare=False)
    """What it sets for each request."""
    schedule: MtpSchedulerOptions = field(init=False, repr=False, compare=False)
    """What it sets for the schedule."""

    def __post_init__(self) -> None:
        try:
            request = GenerationOptions(
                acceptance=self.acceptance,  # type: ignore[arg-type]  # a rule's name is made a rule there
                max_proposals=self.proposals,
                lookahead_depth=self.lookahead_depth,
            )
        except OptionError as error:
            raise OptionError(str(error).replace("max_proposals (K)", "proposals (K)")) from None
        schedule = MtpSchedulerOptions(lookahead=self.lookahead, adaptive_lookahead=self.adaptive_lookahead)
        object.__setattr__(self, "request", request)
        object.__setattr__(self, "schedule", schedule)


Wish = Literal["auto"] | Speculation | None
"""`auto` speculates where there is a drafter, None decodes plainly, a `Speculation` is done or refused."""

LEFT_ASIDE = "they were left aside"
PLAIN = Speculation(proposals=0)
"""Plain decoding."""


@dataclass(frozen=True)
class Plan:
    """What a wish comes to with one model.

    Attributes:
        settings: What requests and schedule are set to.
        report: Who proposes, and why.
        drafter: The assistant that proposes, None for the heads.
    """

    settings: Speculation
    report: SpeculationReport
    drafter: Assistant | None = None

    @property
    def speculates(self) -> bool:
        """Whether a drafter takes part."""
        return self.report.drafter is not None


# rule: capability.no-silent-fallback
def plan_speculation(
    wish: Wish,
    drafter_of: Callable[[str | Path | Assistant | None], Assistant | None],
    capability_of: Callable[[Assistant | None], MtpCapability],
    no_heads: str = LEFT_ASIDE,
) -> Plan:
    """What is done of a wish. Raises `CapabilityError` for a speculation that no drafter can do.

    Args:
        wish: What the caller asks for.
        drafter_of: The draft model that a `Speculation.assistant` means, None for the heads.
        capability_of: What it can do with the target.
        no_heads: Why the target has no heads in use, where it has none.
    """
    if wish is None:
        return Plan(PLAIN, SpeculationReport(None, "plain decoding was asked for"))
    if wish != "auto" and not isinstance(wish, Speculation):
        raise OptionError(f'speculation was {wish!r}; expected "auto", None, or eredu.Speculation(…)')
    settings = Speculation() if wish == "auto" else wish
    drafter = drafter_of(settings.assistant)
    capability = capability_of(drafter)
    reason = _describe(capability, None if drafter is None else drafter.checkpoint.path, no_heads)
    if capability.is_ready:
        return Plan(settings, SpeculationReport(capability.checkpoint, reason), drafter)
    if wish != "auto" and settings.proposals > 0:
        raise CapabilityError(f"this speculation cannot be done: {reason}. speculation=None decodes plainly")
    return Plan(settings, SpeculationReport(None, f"plain decoding: {reason}"))


def _describe(capability: MtpCapability, assistant: Path | None, no_heads: str) -> str:
    """Who proposes, or why nobody can, in one sentence."""
    match capability:
        case MtpCapability(state=MtpState.UNAVAILABLE):
            return (
                f"there are no prediction heads to use ({no_heads}) and no assistant; name a draft model with "
                "assistant=…, or a directory of heads with head=…"
            )
        case MtpCapability(state=MtpState.UNSUPPORTED, architecture=architecture):
            return f"caches of {architecture} cannot be rolled back exactly yet, so speculation could change the output"
        case MtpCapability(checkpoint=MtpCheckpointKind.EMBEDDED):
            return "the prediction heads of the target propose"
        case _:
            return f"the assistant in {assistant} proposes"
