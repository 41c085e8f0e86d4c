"""What evidence is about: a subject, named so that any change of it shows.

Evidence adds up only for one subject. An identity holds digests of the target and the drafter, the versions that a
result depends on, and the settings, and it can say in which of them it differs from another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eredu_validation.evidence.portfolio import Portfolio, portfolio


@dataclass(frozen=True, kw_only=True)
class SubjectIdentity:
    """One subject.

    Attributes:
        target: Digest of the target checkpoint.
        drafter: Digest of the head or assistant; empty without one.
        versions: Versions by name: of Python, the packages, the portfolio.
        settings: Sampling, acceptance rule, K, prompts' digest and whatever else shapes the output; JSON values.
    """

    target: str
    drafter: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "target": self.target,
            "drafter": self.drafter,
            "versions": dict(sorted(self.versions.items())),
            "settings": dict(sorted(self.settings.items())),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> SubjectIdentity:
        """From JSON."""
        return cls(
            target=record["target"],
            drafter=record["drafter"],
            versions=record["versions"],
            settings=record["settings"],
        )

    def differences(self, other: SubjectIdentity) -> list[str]:
        """Every field that differs, with its value here and in the other; empty for one subject."""
        mine, theirs = _flat(self.record()), _flat(other.record())
        return [
            f"{name} was {mine.get(name, 'not given')} and is {theirs.get(name, 'not given')}"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]


def portfolio_version(bets: Portfolio | None = None) -> str:
    """Digest of the names and weights of all bets: log wealth is kept by their order."""
    chosen = bets or portfolio()
    text = json.dumps([list(chosen.names), [round(float(w), 12) for w in chosen.log_weights]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flat(record: Mapping[str, Any]) -> dict[str, str]:
    flat = {name: json.dumps(record[name]) for name in ("target", "drafter")}
    for part in ("versions", "settings"):
        flat |= {f"{part}.{name}": json.dumps(value, sort_keys=True) for name, value in record[part].items()}
    return flat
