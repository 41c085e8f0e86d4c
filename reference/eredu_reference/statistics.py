"""The statistics of one request: added up from one report a round, and balanced after each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from eredu_reference.clipping import ClipReason


class BranchOutcome(StrEnum):
    """What became of a round's lookahead branch."""

    NONE = "none"
    PROMOTED = "promoted"
    DROPPED = "dropped"


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """What one committed round did.

    Attributes:
        start: Output position of its first token.
        reason: What bound its proposals.
        proposals: The verified proposals.
        accepted: How many of them the acceptance rule took.
        token: The token that the target supplied.
        emitted: The tokens that became output.
        replaced: Whether the round ended in an emitted replacement of a rejected proposal.
        branch: What became of its branch.
        planned: Tokens that the branch planned for; 0 without one.
        branch_tokens: Tokens of the branch.
        reused: Branch tokens that start the next block.
        compared: Whether the branch's guess met a bonus.
        disabled: Whether lookahead ended for good with this round.
    """

    start: int
    reason: ClipReason
    proposals: tuple[int, ...]
    accepted: int
    token: int
    emitted: tuple[int, ...]
    replaced: bool
    branch: BranchOutcome = BranchOutcome.NONE
    planned: int = 0
    branch_tokens: tuple[int, ...] = ()
    reused: int = 0
    compared: bool = False
    disabled: bool = False


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Counters over the committed rounds of one request.

    Attributes:
        rounds: Verifications committed.
        drafted: Proposals verified, = accepted + rejected + unexamined.
        accepted: Proposals emitted.
        rejected: Proposals whose replacement was emitted.
        unexamined: Proposals behind a rejection or behind the end of the output.
        target_tokens: Emitted tokens that the target supplied.
        emitted: Output tokens, = accepted + target_tokens.
        lookahead_blocks: Branches resolved.
        lookahead_promoted: Branches promoted.
        lookahead_drafted: Tokens of resolved branches, = consumed + reused + discarded.
        lookahead_consumed: Guesses that became the bonus.
        lookahead_reused: Branch tokens that started a next block.
        lookahead_discarded: Branch tokens thrown away.
        bonus_matches: Guesses equal to the bonus of a fully accepted, non-terminal round.
        bonus_mismatches: Guesses different from it there.
        lookahead_disabled: 1 once the adaptive rule has turned lookahead off.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0
    unexamined: int = 0
    target_tokens: int = 0
    emitted: int = 0
    lookahead_blocks: int = 0
    lookahead_promoted: int = 0
    lookahead_drafted: int = 0
    lookahead_consumed: int = 0
    lookahead_reused: int = 0
    lookahead_discarded: int = 0
    bonus_matches: int = 0
    bonus_mismatches: int = 0
    lookahead_disabled: int = 0

    def as_dict(self) -> dict[str, int]:
        """Counters by name."""
        return dict(vars(self))


def count_round(counted: Statistics, report: RoundReport) -> Statistics:
    """The statistics behind one more committed round."""
    accepted = min(report.accepted, len(report.emitted))
    rejected = int(report.replaced)
    consumed = int(report.branch is BranchOutcome.PROMOTED)
    return replace(
        counted,
        rounds=counted.rounds + 1,
        drafted=counted.drafted + len(report.proposals),
        accepted=counted.accepted + accepted,
        rejected=counted.rejected + rejected,
        unexamined=counted.unexamined + len(report.proposals) - accepted - rejected,
        target_tokens=counted.target_tokens + len(report.emitted) - accepted,
        emitted=counted.emitted + len(report.emitted),
        lookahead_blocks=counted.lookahead_blocks + (report.branch is not BranchOutcome.NONE),
        lookahead_promoted=counted.lookahead_promoted + consumed,
        lookahead_drafted=counted.lookahead_drafted + len(report.branch_tokens),
        lookahead_consumed=counted.lookahead_consumed + consumed,
        lookahead_reused=counted.lookahead_reused + report.reused,
        lookahead_discarded=counted.lookahead_discarded + len(report.branch_tokens) - consumed - report.reused,
        bonus_matches=counted.bonus_matches + (report.compared and consumed == 1),
        bonus_mismatches=counted.bonus_mismatches + (report.compared and consumed == 0),
        lookahead_disabled=counted.lookahead_disabled + report.disabled,
    )
