"""Statistics of a request and of a schedule: immutable, folded from one report a round, balanced at every commit.

A cancelled round leaves no trace here. Times are diagnostic only: nothing ever decides by them, and two runs of one
seed differ in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from eredu.contract.errors import StatisticsError


class ClipReason(StrEnum):
    """What bound the number of proposals of a round."""

    REQUEST = "request"
    CAPABILITY = "capability"
    BUDGET = "budget"
    TARGET_CONTEXT = "target-context"
    DRAFTER_CONTEXT = "drafter-context"
    HIDDEN_STATE = "hidden-state"
    GRAMMAR = "grammar"


class BranchOutcome(StrEnum):
    """What became of a round's lookahead branch."""

    NONE = "none"
    PROMOTED = "promoted"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class BranchResolution:
    """What became of a branch.

    Attributes:
        outcome: Promoted, dropped, or none where the round had no branch.
        drafted: Tokens of the branch.
        reused: Tokens that start the next block.
        compared: Whether its guess met a bonus: the round was fully accepted and not terminal.
    """

    outcome: BranchOutcome = BranchOutcome.NONE
    drafted: int = 0
    reused: int = 0
    compared: bool = False

    @property
    def consumed(self) -> int:
        """1 if the guess became the bonus."""
        return int(self.outcome is BranchOutcome.PROMOTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """What one committed round did; state is what the next step needs, this is what an observer needs.

    Attributes:
        drafted: Proposals verified.
        accepted: Proposals emitted.
        rejected: 1 if the round ended in an emitted replacement, else 0.
        target_tokens: Emitted tokens that the target supplied, 0 or 1.
        clip: What bound `drafted`.
        branch: What became of the lookahead branch.
        disabled: Whether the adaptive rule turned lookahead off at this round.
        drafting_s: Seconds the host spent drafting (diagnostic only).
        waiting_s: Seconds the host waited for the verification (diagnostic only).
    """

    drafted: int
    accepted: int
    rejected: int
    target_tokens: int
    clip: ClipReason
    branch: BranchResolution = BranchResolution()
    disabled: bool = False
    drafting_s: float = 0.0
    waiting_s: float = 0.0


def _count(histogram: tuple[int, ...], index: int, amount: int = 1) -> tuple[int, ...]:
    grown = histogram + (0,) * (index + 1 - len(histogram))
    return (*grown[:index], grown[index] + amount, *grown[index + 1 :])


def _sum(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    if not right:
        return left
    size = max(len(left), len(right))
    padded = (histogram + (0,) * (size - len(histogram)) for histogram in (left, right))
    return tuple(a + b for a, b in zip(*padded, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatistics:
    """Counters of one request, or the sum over several.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        emitted: Output tokens.
        target_tokens: Output tokens that the target supplied (plain tokens, bonuses, replacements).
        target_rows: Target inputs verified: one a round and one a proposal.
        rounds: Verifications committed.
        drafted: Proposals verified, = accepted + rejected + unexamined.
        accepted: Proposals emitted.
        rejected: Proposals replaced by the target's token.
        unexamined: Proposals behind a rejection or behind the end of the output.
        rounds_by_length: Rounds by accepted length, index 0, 1, 2, …
        drafted_by_position: Proposals by their place in the block, index 0 the first.
        accepted_by_position: Emitted proposals by their place in the block.
        requested_depth: K of the request (of the largest request in a sum).
        clipped: Rounds by the reason that bound their depth.
        lookahead_blocks: Branches resolved, = promoted + dropped.
        lookahead_promoted: Branches promoted.
        lookahead_drafted: Tokens of resolved branches, = consumed + reused + discarded.
        lookahead_consumed: Guesses that became the bonus.
        lookahead_reused: Branch tokens that started a next block.
        lookahead_discarded: Branch tokens thrown away.
        bonus_matches: Guesses equal to the bonus, in fully accepted, non-terminal rounds.
        bonus_mismatches: Guesses different from it there.
        lookahead_disabled: Requests whose lookahead the adaptive rule turned off.
        drafting_s: Seconds the host spent drafting (diagnostic only).
        waiting_s: Seconds the host waited for verifications (diagnostic only).
        elapsed_s: Seconds from opening to the end (diagnostic only).
    """

    prompt_tokens: int = 0
    emitted: int = 0
    target_tokens: int = 0
    target_rows: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0
    unexamined: int = 0
    rounds_by_length: tuple[int, ...] = ()
    drafted_by_position: tuple[int, ...] = ()
    accepted_by_position: tuple[int, ...] = ()
    requested_depth: int = 0
    clipped: tuple[tuple[str, int], ...] = ()
    lookahead_blocks: int = 0
    lookahead_promoted: int = 0
    lookahead_drafted: int = 0
    lookahead_consumed: int = 0
    lookahead_reused: int = 0
    lookahead_discarded: int = 0
    bonus_matches: int = 0
    bonus_mismatches: int = 0
    lookahead_disabled: int = 0
    drafting_s: float = 0.0
    waiting_s: float = 0.0
    elapsed_s: float = 0.0

    @property
    def tokens_per_round(self) -> float:
        """Mean output tokens a verification gave."""
        return self.emitted / self.rounds if self.rounds else 0.0

    @property
    def effective_depth(self) -> float:
        """Mean proposals a round, after every clip."""
        return self.drafted / self.rounds if self.rounds else 0.0

    # rule: statistics.committed-rounds-only
    def with_round(self, report: RoundReport) -> RequestStatistics:
        """The counters after one more round. Raises `StatisticsError` if they do not balance."""
        branch, promoted = report.branch, report.branch.outcome is BranchOutcome.PROMOTED
        clipped = dict(self.clipped)
        clipped[report.clip.value] = clipped.get(report.clip.value, 0) + 1
        after = replace(
            self,
            emitted=self.emitted + report.accepted + report.target_tokens,
            target_tokens=self.target_tokens + report.target_tokens,
            target_rows=self.target_rows + report.drafted + 1,
            rounds=self.rounds + 1,
            drafted=self.drafted + report.drafted,
            accepted=self.accepted + report.accepted,
            rejected=self.rejected + report.rejected,
            unexamined=self.unexamined + report.drafted - report.accepted - report.rejected,
            rounds_by_length=_count(self.rounds_by_length, report.accepted),
            drafted_by_position=_sum(self.drafted_by_position, (1,) * report.drafted),
            accepted_by_position=_sum(self.accepted_by_position, (1,) * report.accepted),
            clipped=tuple(sorted(clipped.items())),
            lookahead_blocks=self.lookahead_blocks + (branch.outcome is not BranchOutcome.NONE),
            lookahead_promoted=self.lookahead_promoted + promoted,
            lookahead_drafted=self.lookahead_drafted + branch.drafted,
            lookahead_consumed=self.lookahead_consumed + branch.consumed,
            lookahead_reused=self.lookahead_reused + branch.reused,
            lookahead_discarded=self.lookahead_discarded + branch.drafted - branch.consumed - branch.reused,
            bonus_matches=self.bonus_matches + (branch.compared and promoted),
            bonus_mismatches=self.bonus_mismatches + (branch.compared and not promoted),
            lookahead_disabled=self.lookahead_disabled + report.disabled,
            drafting_s=self.drafting_s + report.drafting_s,
            waiting_s=self.waiting_s + report.waiting_s,
        )
        after.check()
        return after

    def closed(self, elapsed_s: float) -> RequestStatistics:
        """The counters of a request that has ended, after `elapsed_s` seconds."""
        return replace(self, elapsed_s=elapsed_s)

    def check(self) -> None:
        """Check every relation between the counters. Raises `StatisticsError` naming the first that fails."""
        for identity, difference in self._identities().items():
            if difference != 0:
                raise StatisticsError(f"the statistics do not balance: {identity} is off by {difference} in {self}")
        for name, chain in self._orders().items():
            if any(small > large for small, large in pairwise(chain)):
                raise StatisticsError(f"the statistics contradict each other: {name} is {chain} in {self}")

    def _identities(self) -> dict[str, int]:
        """What must be equal, as differences."""
        lengths = self.rounds_by_length
        proposals = (self.accepted, self.rejected, self.unexamined)
        lookahead = (self.lookahead_consumed, self.lookahead_reused, self.lookahead_discarded)
        longer = tuple(sum(lengths[place + 1 :]) for place in range(len(self.accepted_by_position)))
        return {
            # rule: statistics.emitted-balance
            "emitted = accepted + target_tokens": self.emitted - self.accepted - self.target_tokens,
            # rule: statistics.proposals-balance
            "drafted = accepted + rejected + unexamined": self.drafted - sum(proposals),
            "target_rows = rounds + drafted": self.target_rows - self.rounds - self.drafted,
            "rounds = sum of rounds_by_length": self.rounds - sum(lengths),
            "rounds = sum of clipped": self.rounds - sum(count for _, count in self.clipped),
            "drafted = sum of drafted_by_position": self.drafted - sum(self.drafted_by_position),
            "accepted = sum of accepted_by_position": self.accepted - sum(self.accepted_by_position),
            "accepted_by_position = longer rounds_by_length": sum(
                abs(mine - other) for mine, other in zip(self.accepted_by_position, longer, strict=True)
            ),
            # rule: statistics.lookahead-balance
            "lookahead_drafted = consumed + reused + discarded": self.lookahead_drafted - sum(lookahead),
            "lookahead_promoted = bonus_matches": self.lookahead_promoted - self.bonus_matches,
            "lookahead_promoted = lookahead_consumed": self.lookahead_promoted - self.lookahead_consumed,
        }

    def _orders(self) -> dict[str, tuple[int, ...]]:
        """What must not decrease from left to right."""
        compared, blocks = self.bonus_matches + self.bonus_mismatches, self.lookahead_blocks
        return {
            "0, rejected, target_tokens, rounds": (0, self.rejected, self.target_tokens, self.rounds),
            "0, unexamined": (0, self.unexamined),
            "0, bonus_matches + bonus_mismatches, lookahead_blocks, rounds": (0, compared, blocks, self.rounds),
            "0, bonus_mismatches, lookahead_discarded": (0, self.bonus_mismatches, self.lookahead_discarded),
            "0, lookahead_reused": (0, self.lookahead_reused),
            "drafted_by_position, last to first, rounds": (*reversed(self.drafted_by_position), self.rounds),
        }

    def to_json(self) -> dict[str, Any]:
        """All counters by name, with the derived means; histograms as lists."""
        plain = asdict(self)
        plain["clipped"] = dict(self.clipped)
        return {**plain, "tokens_per_round": self.tokens_per_round, "effective_depth": self.effective_depth}

    @classmethod
    def total(cls, parts: Iterable[RequestStatistics]) -> RequestStatistics:
        """Sum over requests; `requested_depth` is the maximum."""
        result = cls()
        for part in parts:
            result = cls(**{item.name: _merge(item.name, result, part) for item in fields(cls)})
        return result


def _merge(name: str, left: RequestStatistics, right: RequestStatistics) -> Any:
    mine, other = getattr(left, name), getattr(right, name)
    if name == "requested_depth":
        return max(mine, other)
    if name == "clipped":
        counts = Counter(dict(mine)) + Counter(dict(other))
        return tuple(sorted(counts.items()))
    return _sum(mine, other) if isinstance(mine, tuple) else mine + other


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatistics:
    """Counters of one schedule.

    Attributes:
        turns: Actions taken; submitting a group is one.
        actions: Turns by kind of action.
        cross_request_drafts: Drafts made while a verification of another request was in flight.
        peak_live: Requests alive at once, at the most.
        peak_in_flight: Verifications in flight at once, at the most.
        peak_branches: Lookahead branches alive at once, at the most.
        submissions: Groups submitted, those of one request included.
        peak_group: Requests of one group, at the most.
        cancelled: Requests cancelled.
        elapsed_s: Seconds from the first turn to the last (diagnostic only).
        requests: Sum over the requests.
    """

    turns: int = 0
    actions: tuple[tuple[str, int], ...] = ()
    cross_request_drafts: int = 0
    peak_live: int = 0
    peak_in_flight: int = 0
    peak_branches: int = 0
    submissions: int = 0
    peak_group: int = 0
    cancelled: int = 0
    elapsed_s: float = 0.0
    requests: RequestStatistics = field(default_factory=RequestStatistics)

    def to_json(self) -> dict[str, Any]:
        """All counters by name."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "actions": dict(self.actions), "requests": self.requests.to_json()}
