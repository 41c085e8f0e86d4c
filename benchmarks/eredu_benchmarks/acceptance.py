"""Acceptance that runs measured, position by position, and the tokens a round that it implies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from eredu_benchmarks.run import VerifiedRound


@dataclass(frozen=True, slots=True)
class AcceptanceProfile:
    """What the verifications of some runs did with the proposals.

    Attributes:
        rounds: Verifications.
        emitted: Tokens that came of them.
        drafted: Rounds that had a proposal at each place of the block, the first at index 0.
        examined: Rounds in which the target decided on it: all before it stood, and the output had not ended.
        accepted: Rounds in which it stood.
    """

    rounds: int
    emitted: int
    drafted: tuple[int, ...]
    examined: tuple[int, ...]
    accepted: tuple[int, ...]

    @classmethod
    def of(cls, rounds: Iterable[VerifiedRound]) -> AcceptanceProfile:
        """Count over rounds."""
        counted = tuple(rounds)
        places = range(max((each.proposals for each in counted), default=0))
        reached = [[each for each in counted if each.proposals > at and each.emitted > at] for at in places]
        examined = [[each for each in some if each.accepted >= at] for at, some in zip(places, reached, strict=True)]
        return cls(
            rounds=len(counted),
            emitted=sum(each.emitted for each in counted),
            drafted=tuple(sum(each.proposals > at for each in counted) for at in places),
            examined=tuple(len(some) for some in examined),
            accepted=tuple(sum(each.accepted > at for each in some) for at, some in zip(places, examined, strict=True)),
        )

    @property
    def conditional(self) -> tuple[float, ...]:
        """Probability at each place that a proposal stands, given that all before it did."""
        return tuple(a / e if e else 0.0 for a, e in zip(self.accepted, self.examined, strict=True))

    @property
    def chain(self) -> tuple[float, ...]:
        """Probability that the first 1, 2, … proposals all stand: running products of `conditional`."""
        return tuple(accumulate(self.conditional, mul))

    @property
    def tokens_per_round(self) -> float:
        """Tokens a round that the runs really had."""
        return self.emitted / self.rounds if self.rounds else 0.0

    @property
    def implied_tokens_per_round(self) -> float:
        """1 + sum of `chain`, each place weighted by the part of the rounds that had a proposal there.

        The weights are 1 but for rounds cut short by the token budget. What the end of an output cuts off inside a
        block is not in it, so it may lie above `tokens_per_round` by less than one block an output.
        """
        if self.rounds == 0:
            return 0.0
        return 1 + sum(chance * count / self.rounds for chance, count in zip(self.chain, self.drafted, strict=True))

    @property
    def unhurried_tokens_per_round(self) -> float:
        """1 + sum of `chain`: what this acceptance gives where no budget cuts a block."""
        return 1 + sum(self.chain)

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "rounds": self.rounds,
            "emitted": self.emitted,
            "drafted_by_position": list(self.drafted),
            "examined_by_position": list(self.examined),
            "accepted_by_position": list(self.accepted),
            "conditional_acceptance": rounded(self.conditional),
            "chain_acceptance": rounded(self.chain),
            "tokens_per_round": round(self.tokens_per_round, 4),
            "implied_tokens_per_round": round(self.implied_tokens_per_round, 4),
            "unhurried_tokens_per_round": round(self.unhurried_tokens_per_round, 4),
        }


def rounded(values: Sequence[float], digits: int = 4) -> list[float]:
    """Values as a report shows them."""
    return [round(value, digits) for value in values]
