"""Adaptive lookahead: a switch per request that turns branches off for good where they do not pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eredu_spec.sites import obeys

if TYPE_CHECKING:
    from eredu_spec.state import Request, Resolution


class Adaptive(NamedTuple):
    """The switch and the counters of the current window.

    Attributes:
        enabled: Whether branches are drafted.
        resolved: Branches promoted or dropped in this window.
        reused: Their tokens that started a next block.
        discarded: Tokens they had planned for that were neither consumed nor reused.
    """

    enabled: bool = True
    resolved: int = 0
    reused: int = 0
    discarded: int = 0


class Control:
    """Decides about lookahead and K between rounds.

    Both decisions see the whole round, and must use only what cannot be drawn again: outcomes and planned lengths,
    never a proposal or coin behind the accepted length.
    """

    @obeys(
        "adaptive.window",
        "adaptive.disable-when-unpaid",
        "adaptive.planned-not-drawn",
        "adaptive.no-clock",
        "randomness.control-ignores-redrawable",
    )
    def lookahead(self, request: Request, resolution: Resolution) -> Adaptive:
        """The switch behind a round whose branch was promoted or dropped."""
        before, window = request.adaptive, request.settings.window
        if window is None:
            return before
        unused = request.planned - resolution.consumed - resolution.reused
        after = Adaptive(
            enabled=before.enabled,
            resolved=before.resolved + 1,
            reused=before.reused + resolution.reused,
            discarded=before.discarded + unused,
        )
        if after.resolved < window:
            return after
        pays = after.reused > 0 and after.discarded <= after.reused
        return Adaptive(enabled=before.enabled and pays)

    @obeys("randomness.control-ignores-redrawable")
    def requested(self, request: Request, resolution: Resolution) -> int:  # noqa: ARG002
        """K asked for in the next round: what the request was opened with."""
        return request.settings.requested
