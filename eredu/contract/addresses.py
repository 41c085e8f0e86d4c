"""Which address each draw of a round reads, by acceptance rule.

Rejection and coupling examine a draw only where they settle its position, so positions address them. Block
verification looks at coins and proposals behind the length it settles on; they would meet the next round with a known
past, so its round addresses them, by the position where the round starts and a number within it.
"""

from __future__ import annotations

from eredu.contract.options import AcceptanceRule
from eredu.contract.randomness import RequestRandomness, Role, Words


def draft_key(randomness: RequestRandomness, rule: AcceptanceRule, *, round_position: int, index: int) -> Words:
    """Key of proposal `index` (from 0) of the round that starts at output position `round_position`."""
    match rule:
        # rule: randomness.shared-noise
        case AcceptanceRule.COUPLED:
            return randomness.key(Role.NOISE, round_position + index)
        # rule: randomness.by-round, randomness.address-once
        case AcceptanceRule.BLOCK:
            return randomness.key(Role.DRAFT, round_position, index)
        # rule: randomness.by-position
        case _:
            return randomness.key(Role.DRAFT, round_position + index)


# rule: randomness.by-round, randomness.by-position
def coin_keys(randomness: RequestRandomness, rule: AcceptanceRule, position: int, count: int) -> list[Words]:
    """Keys of the coins of a round of `count` proposals that starts at `position`."""
    if rule is AcceptanceRule.BLOCK:
        return [randomness.key(Role.ACCEPT, position, index) for index in range(count)]
    return [randomness.key(Role.ACCEPT, position + index) for index in range(count)]


# rule: randomness.by-position, randomness.roles-disjoint
def final_keys(randomness: RequestRandomness, position: int, count: int) -> list[Words]:
    """Keys of the round's last token by accepted length: a replacement for each of 0..count-1, then the bonus."""
    residuals = [randomness.key(Role.RESIDUAL, position + index) for index in range(count)]
    return [*residuals, randomness.key(Role.TARGET, position + count)]


# rule: randomness.shared-noise
def noise_keys(randomness: RequestRandomness, position: int, rows: int) -> list[Words]:
    """Keys of the shared Gumbel vectors of consecutive positions."""
    return [randomness.key(Role.NOISE, position + index) for index in range(rows)]
