"""Which address each decision reads. Pure functions of the rule and of logical output positions.

Under `rejection`, `coupled` and plain decoding every draw is addressed by the position of its token. Under `block`
the proposals and coins of a round belong to the round, because its decision looks at coins behind the accepted length,
which the next round must not read again; they are addressed by the round's first position and their number in it.
"""

from __future__ import annotations

from eredu_reference.requests import AcceptanceRule
from eredu_reference.sources import Address, Role


def proposal_address(rule: AcceptanceRule, start: int, index: int) -> Address:
    """Address of a proposal.

    Args:
        rule: The acceptance rule.
        start: Output position of the first proposal of its round.
        index: Its number in the round, from 0. Numbers from the round's k on are those of a guess at the bonus.
    """
    if rule is AcceptanceRule.BLOCK:
        return Address(Role.DRAFT, start, index)
    if rule is AcceptanceRule.COUPLED:
        return Address(Role.NOISE, start + index)
    return Address(Role.DRAFT, start + index)


def coin_address(rule: AcceptanceRule, start: int, index: int) -> Address:
    """Address of the coin over proposal number `index` of the round that starts at `start`."""
    if rule is AcceptanceRule.BLOCK:
        return Address(Role.ACCEPT, start, index)
    return Address(Role.ACCEPT, start + index)


def replacement_address(rule: AcceptanceRule, position: int) -> Address:  # noqa: ARG001
    """Address of the token that replaces a rejected proposal at an output position."""
    return Address(Role.RESIDUAL, position)


def target_address(rule: AcceptanceRule, position: int) -> Address:
    """Address of a token that the target alone decides: plain tokens, bonuses, and every token under `coupled`."""
    return Address(Role.NOISE if rule is AcceptanceRule.COUPLED else Role.TARGET, position)
