"""The books of a request: one report a committed round, folded into counters that balance."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eredu_spec.sites import obeys

if TYPE_CHECKING:
    from eredu_spec.state import Request, Resolution


class Books(NamedTuple):
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


@obeys("statistics.proposals-balance", "statistics.emitted-balance", "statistics.lookahead-balance")
def report(request: Request, resolution: Resolution) -> Books:
    """The books of the round that `resolution` resolves, taken alone."""
    drafted, emitted = len(request.block), len(resolution.emitted)
    accepted = min(resolution.accepted, emitted)
    target_tokens = emitted - accepted
    rejected = int(target_tokens == 1 and resolution.accepted < drafted)
    return Books(
        emitted=emitted,
        target_tokens=target_tokens,
        target_rows=drafted + 1,
        rounds=1,
        drafted=drafted,
        accepted=accepted,
        rejected=rejected,
        unexamined=drafted - accepted - rejected,
        lookahead_blocks=int(resolution.branch != "none"),
        lookahead_promoted=int(resolution.branch == "promoted"),
        lookahead_drafted=len(request.branch),
        lookahead_consumed=resolution.consumed,
        lookahead_reused=resolution.reused,
        lookahead_discarded=resolution.discarded,
        bonus_matches=int(resolution.matched is True),
        bonus_mismatches=int(resolution.matched is False),
        lookahead_disabled=int(request.adaptive.enabled and not resolution.adaptive.enabled),
    )


def added(books: Books, more: Books) -> Books:
    """The books after one more round."""
    return Books(*(old + new for old, new in zip(books, more, strict=True)))


@obeys("statistics.proposals-balance", "statistics.emitted-balance", "statistics.lookahead-balance")
def is_balanced(books: Books) -> bool:
    """Whether every identity between the counters holds and none is negative."""
    return (
        min(books) >= 0
        and books.emitted == books.accepted + books.target_tokens
        and books.drafted == books.accepted + books.rejected + books.unexamined
        and books.target_rows == books.rounds + books.drafted
        and books.target_tokens <= books.rounds
        and books.lookahead_drafted == books.lookahead_consumed + books.lookahead_reused + books.lookahead_discarded
        and books.lookahead_promoted == books.lookahead_consumed == books.bonus_matches
        and books.bonus_matches + books.bonus_mismatches <= books.lookahead_blocks <= books.rounds
    )
