"""The statistics of a request: counters that balance."""

from __future__ import annotations

from typing import NamedTuple

from eredu_spec.sites import obeys


class Statistics(NamedTuple):
    """Counters of one request, of committed rounds only.

    Attributes:
        emitted: Output tokens.
        target_tokens: Output tokens that the target supplied.
        target_rows: Target inputs verified.
        rounds: Verifications committed.
        drafted: Proposals verified.
        accepted: Proposals emitted.
        rejected: Proposals replaced by an emitted token of the target.
        unexamined: Proposals behind a rejection or behind the end of the output.
        lookahead_blocks: Branches resolved.
        lookahead_promoted: Branches promoted.
        lookahead_drafted: Tokens of resolved branches.
        lookahead_consumed: Guesses that became the bonus.
        lookahead_reused: Branch tokens that started a next block.
        lookahead_discarded: Branch tokens thrown away.
        bonus_matches: Guesses equal to the bonus they met.
        bonus_mismatches: Guesses different from the bonus they met.
        lookahead_disabled: 1 once the adaptive rule has turned lookahead off.
    """

    emitted: int = 0
    target_tokens: int = 0
    target_rows: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0
    unexamined: int = 0
    lookahead_blocks: int = 0
    lookahead_promoted: int = 0
    lookahead_drafted: int = 0
    lookahead_consumed: int = 0
    lookahead_reused: int = 0
    lookahead_discarded: int = 0
    bonus_matches: int = 0
    bonus_mismatches: int = 0
    lookahead_disabled: int = 0


def added(statistics: Statistics, more: Statistics) -> Statistics:
    """The statistics after one more round."""
    return Statistics(*(old + new for old, new in zip(statistics, more, strict=True)))


@obeys("statistics.proposals-balance", "statistics.emitted-balance", "statistics.lookahead-balance")
def is_balanced(counted: Statistics) -> bool:
    """Whether every identity between the counters holds and none is negative."""
    return (
        min(counted) >= 0
        and counted.emitted == counted.accepted + counted.target_tokens
        and counted.drafted == counted.accepted + counted.rejected + counted.unexamined
        and counted.target_rows == counted.rounds + counted.drafted
        and counted.target_tokens <= counted.rounds
        and counted.lookahead_drafted
        == counted.lookahead_consumed + counted.lookahead_reused + counted.lookahead_discarded
        and counted.lookahead_promoted == counted.lookahead_consumed == counted.bonus_matches
        and counted.bonus_matches + counted.bonus_mismatches <= counted.lookahead_blocks <= counted.rounds
    )
