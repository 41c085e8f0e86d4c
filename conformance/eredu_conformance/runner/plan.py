"""Which checks a run has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from eredu_conformance.checks.check import Check, Kind, Tier
from eredu_conformance.checks.registry import all_checks
from eredu_conformance.protocol import ConformanceError


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A choice of checks.

    Attributes:
        tier: Checks of this tier and the ones before it.
        kinds: Kinds; empty means all.
        rules: Shell patterns over rules; empty means all.
        checks: Shell patterns over ids; empty means all. An id in full is taken whatever its tier.
        families: Shell patterns over model families: their checks and no others; empty means the rules of an engine.
        seed: Seed of every check.
    """

    tier: Tier = Tier.STANDARD
    kinds: tuple[Kind, ...] = ()
    rules: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    seed: int = 0

    def select(self, among: Iterable[Check] | None = None) -> tuple[Check, ...]:
        """The chosen checks, in their order.

        Raises:
            ConformanceError: none is chosen.
        """
        chosen = tuple(check for check in (all_checks() if among is None else among) if self._takes(check))
        if not chosen:
            raise ConformanceError(f"no check is chosen by {self}; `eredu conformance --list --tier nightly` shows all")
        return chosen

    def _takes(self, check: Check) -> bool:
        if check.id in self.checks:
            return True
        if check.family is None if self.families else check.family is not None:
            return False
        if check.family is not None and not any(fnmatchcase(check.family, pattern) for pattern in self.families):
            return False
        return (
            self.tier.includes(check.tier)
            and (not self.kinds or check.kind in self.kinds)
            and (not self.rules or any(fnmatchcase(check.rule, pattern) for pattern in self.rules))
            and (not self.checks or any(fnmatchcase(check.id, pattern) for pattern in self.checks))
        )
