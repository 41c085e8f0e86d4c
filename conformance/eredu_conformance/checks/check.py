"""A check: one claim about a subject, small enough to be named, repeated alone and answered by a fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.protocol import Acceptance, Capabilities, Feature


class Kind(StrEnum):
    """What a check looks at. Each kind is a folder beside this file."""

    PATH = "path"
    """Equality of outputs."""
    LAW = "law"
    """The distribution of outputs."""
    STATE = "state"
    """What caches, statistics and boundaries hold, as far as it shows from outside."""
    STATEFUL = "stateful"
    """The engine in lock-step with the machine of the spec."""
    TRACE = "trace"
    """The engine's own log, replayed."""
    FAMILY = "family"
    """One model family's tiny checkpoint, from the inside; only where a run names families."""


class Tier(StrEnum):
    """How much time a run of the suite may take; each tier contains the ones before it."""

    QUICK = "quick"
    STANDARD = "standard"
    NIGHTLY = "nightly"

    @property
    def rank(self) -> int:
        """Place among the tiers, from 0."""
        return list(Tier).index(self)

    def includes(self, other: Tier) -> bool:
        """Whether a run of this tier has the checks of the other."""
        return other.rank <= self.rank


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a subject must declare before a check is worth asking.

    Attributes:
        features: Features.
        options: Settings by name, as in `Capabilities.options`.
        acceptance: The rule, or None.
        proposals: The K that is asked for.
        batch: Requests of one run.
        protocol_semantics: Whether the options must work as the protocol words them.
        engines: Names of the subjects that it is about; empty means any.
    """

    features: frozenset[Feature] = frozenset()
    options: frozenset[str] = frozenset()
    acceptance: Acceptance | None = None
    proposals: int = 0
    batch: int = 1
    protocol_semantics: bool = False
    engines: frozenset[str] = frozenset()

    def obstacle(self, capabilities: Capabilities) -> str | None:
        """Why the check does not concern a subject, or None."""
        name = capabilities.name
        if self.engines and name not in self.engines:
            return f"it is about {', '.join(sorted(self.engines))}"
        if missing := sorted(feature.value for feature in self.features - capabilities.features):
            return f"{name} declares no {', '.join(missing)}"
        if missing := sorted(self.options - capabilities.options):
            return f"{name} declares no {', '.join(missing)}"
        own = sorted(self.options & capabilities.own_semantics.keys()) if self.protocol_semantics else []
        if own:
            return f"{name} has its own {own[0]}: {capabilities.own_semantics[own[0]]}"
        if self.acceptance is not None and self.acceptance not in capabilities.acceptance:
            return f"{name} doesn't have the acceptance rule {self.acceptance.value}"
        if self.proposals > capabilities.max_proposals:
            return f"{name} takes up to {capabilities.max_proposals} proposals, not {self.proposals}"
        if self.batch > capabilities.max_batch:
            return f"{name} takes {capabilities.max_batch} requests a run, not {self.batch}"
        return None


Run = Callable[["SubjectSession", int], Observation]
"""Does a check on a session with a seed; raises `CheckFailure`, or `SkippedRunError` where the subject can't."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        id: `kind.claim/case/setting…`; never reused for another claim.
        rule: The rule of the spec that a failure breaks.
        about: The claim in a sentence.
        run: Does it.
        tier: The smallest tier that has it.
        needs: What the subject must declare.
        family: The model family that it is about; None for the rules of an engine.
    """

    id: str
    rule: str
    about: str
    run: Run = field(repr=False)
    tier: Tier = Tier.QUICK
    needs: Needs = Needs()
    family: str | None = None

    def __post_init__(self) -> None:
        if self.id.partition(".")[0] not in set(Kind):
            raise ValueError(f"the check {self.id!r} is of no kind; its id must start with one of {', '.join(Kind)}")

    @property
    def kind(self) -> Kind:
        """What it looks at: the first word of its id."""
        return Kind(self.id.partition(".")[0])
