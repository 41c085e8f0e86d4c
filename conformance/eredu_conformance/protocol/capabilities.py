"""What a subject says it can do, so that the suite asks nothing else and calls the rest skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from eredu.files.json_reading import read_json_object
from eredu_conformance.protocol.options import Acceptance
from eredu_conformance.protocol.run import Checkpoint, Run


class Feature(StrEnum):
    """A kind of run or of answer that a subject may have."""

    SEEDS = "seeds"
    """The same seed gives the same output."""
    CHOICES = "choices"
    """Randomness can be injected (`Run.choices`)."""
    LOOKAHEAD = "lookahead"
    """Branches can be drafted while a verification is in flight."""
    SLIDING_WINDOW = "sliding-window"
    """Checkpoints with sliding layers load."""
    CANCELLATION = "cancellation"
    """A request can be cancelled (`Request.cancel_after`)."""
    STATISTICS = "statistics"
    """Answers carry counters."""
    TRACES = "traces"
    """Results carry a trace."""
    CHECKPOINTS = "checkpoints"
    """Published checkpoints load beside the crafted ones, whatever their architecture; a run whose checkpoint turns
    out not to load is skipped."""
    HEADS = "heads"
    """Prediction heads can propose (`Checkpoint.heads`)."""


_FEATURE_OF = {
    "seed": Feature.SEEDS,
    "lookahead_depth": Feature.LOOKAHEAD,
    "lookahead": Feature.LOOKAHEAD,
    "adaptive_lookahead": Feature.LOOKAHEAD,
    "adaptive_window": Feature.LOOKAHEAD,
    "max_branches": Feature.LOOKAHEAD,
}
"""Settings that a feature implies; all others are declared by name."""

_CHECKED_APART = frozenset({"max_tokens", "max_proposals", "acceptance"})


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The declaration of a subject.

    Attributes:
        name: Name of the engine, as in `mlx-lm`.
        version: Its version.
        architectures: `model_type`s that load for certain; the only ones without `Feature.CHECKPOINTS`.
        features: See `Feature`.
        options: Names of the fields of `RunOptions` and `Schedule` that take effect. `max_tokens`, `max_proposals` and
            `acceptance` need no entry, nor do settings that a feature implies.
        acceptance: Rules that can be asked for; the first is the default. Empty without speculation.
        max_proposals: The largest K; 0 for an engine without speculation.
        max_batch: The most requests of one run.
        own_semantics: Options that work, but not as the protocol words them: name to how. Comparisons of the
            subject with itself still use them, comparisons with the law don't.
    """

    name: str
    version: str
    architectures: frozenset[str] = frozenset({"llama"})
    features: frozenset[Feature] = frozenset()
    options: frozenset[str] = frozenset()
    acceptance: tuple[Acceptance, ...] = ()
    max_proposals: int = 0
    max_batch: int = 1
    own_semantics: Mapping[str, str] = field(default_factory=dict)

    def obstacle(self, run: Run) -> str | None:
        """Why the subject can't do the run by its own declaration, or None."""
        return self._call_obstacle(run) or self._option_obstacle(run) or self.checkpoint_obstacle(run.checkpoint)

    def checkpoint_obstacle(self, checkpoint: Checkpoint) -> str | None:
        """Why the subject can't load the checkpoints by its own declaration, or None."""
        if checkpoint.heads is not None and Feature.HEADS not in self.features:
            return f"{self.name} has no prediction heads"
        for place in (checkpoint.target, checkpoint.draft):
            if place is not None and (reason := self._place_obstacle(place)):
                return reason
        return None

    def _call_obstacle(self, run: Run) -> str | None:
        if len(run.requests) > self.max_batch:
            return f"{self.name} takes {self.max_batch} requests a run, not {len(run.requests)}"
        if run.choices is not None and Feature.CHOICES not in self.features:
            return f"{self.name} takes no injected randomness"
        if run.seed is not None and Feature.SEEDS not in self.features:
            return f"{self.name} has no seeds"
        if Feature.CANCELLATION not in self.features and any(r.cancel_after is not None for r in run.requests):
            return f"{self.name} can't cancel a request"
        if run.speculates and run.checkpoint.draft is None and run.checkpoint.heads is None:
            return "the run asks for proposals and names no draft checkpoint"
        return None

    def _option_obstacle(self, run: Run) -> str | None:
        asked = run.schedule.asked().union(*(request.options.asked() for request in run.requests))
        for name in sorted(asked - _CHECKED_APART - self.options):
            if _FEATURE_OF.get(name) not in self.features:
                return f"{self.name} doesn't support {name}"
        for request in run.requests:
            if request.options.max_proposals > self.max_proposals:
                return f"{self.name} takes up to {self.max_proposals} proposals, not {request.options.max_proposals}"
            rule = request.options.acceptance
            if rule is not None and rule not in self.acceptance:
                return f"{self.name} doesn't have the acceptance rule {rule.value}"
        return None

    def _place_obstacle(self, place: Path) -> str | None:
        published = Feature.CHECKPOINTS in self.features
        if not place.is_dir():
            return None if published else f"{self.name} loads directories only, not {place}"
        config = read_json_object(place / "config.json")
        if config["model_type"] not in self.architectures and not published:
            return f"{self.name} doesn't load the architecture {config['model_type']}"
        if config.get("sliding_window") is not None and Feature.SLIDING_WINDOW not in self.features:
            return f"{self.name} doesn't load sliding windows"
        return None
