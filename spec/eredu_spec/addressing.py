"""Which address a draw has, by acceptance rule."""

from __future__ import annotations

from eredu_spec.randomness import Address, Role
from eredu_spec.sites import obeys


@obeys("randomness.by-position")
class Addressing:
    """Addresses of the draws of a round whose first proposal stands at output position `start`.

    This base addresses everything by position: right for `rejection`, whose decision about a position reads nothing
    behind it, so that a redraw at an old address meets randomness nobody has looked at.
    """

    def proposal(self, start: int, index: int) -> Address:
        """Proposal `index` of the round."""
        return Address(Role.DRAFT, start + index)

    def coin(self, start: int, index: int) -> Address:
        """Coin that judges proposal `index`."""
        return Address(Role.ACCEPT, start + index)

    def residual(self, position: int) -> Address:
        """Replacement at an output position."""
        return Address(Role.RESIDUAL, position)

    def target(self, position: int) -> Address:
        """Bonus or plain token at an output position."""
        return Address(Role.TARGET, position)


@obeys("randomness.by-round")
class RoundAddressing(Addressing):
    """Proposals and coins belong to their round: right for `block`, whose decision reads behind its outcome."""

    def proposal(self, start: int, index: int) -> Address:
        """Proposal `index` of the round."""
        return Address(Role.DRAFT, start, index)

    def coin(self, start: int, index: int) -> Address:
        """Coin that judges length `index + 1`."""
        return Address(Role.ACCEPT, start, index)


@obeys("randomness.shared-noise")
class SharedNoise(Addressing):
    """One vector a position, shared by drafter and target: right for `coupled`, which throws no coins."""

    def proposal(self, start: int, index: int) -> Address:
        """Proposal `index` of the round."""
        return Address(Role.NOISE, start + index)

    def residual(self, position: int) -> Address:
        """Replacement at an output position."""
        return Address(Role.NOISE, position)

    def target(self, position: int) -> Address:
        """Bonus or plain token at an output position."""
        return Address(Role.NOISE, position)


def addressing_of(rule: str) -> Addressing:
    """The addressing of an acceptance rule; greedy decoding has addresses and reads none."""
    return {"block": RoundAddressing(), "coupled": SharedNoise()}.get(rule, Addressing())
