"""Adaptive lookahead: a switch per request that turns branches off for good where they do not pay."""

from __future__ import annotations

from eredu_spec.request import Adaptive, Control, Request, Resolution
from eredu_spec.sites import obeys


class AdaptiveControl:
    """The rules' own decisions about lookahead and K."""

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


def control_of(request: Request) -> Control:
    """Who decides for the request."""
    return request.settings.control or AdaptiveControl()
