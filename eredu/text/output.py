"""Visible text of one output: detokenized, cut at a stop string, taken piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eredu.text.pieces import TokenPieces
from eredu.text.stops import StopStrings
from eredu.text.streaming import Detokenizer


@dataclass(frozen=True, slots=True)
class StreamingText:
    """Implements `OutputText`: a copy is a branch, and discarding a round means keeping the value before it.

    Attributes:
        detokenizer: Bytes of the character under way.
        stops: Stop strings and the text that may begin one.
        ready: Certain text that nobody has taken yet.
    """

    detokenizer: Detokenizer
    stops: StopStrings
    ready: str = ""

    @classmethod
    def before(cls, pieces: TokenPieces, stop_strings: Sequence[str] = ()) -> StreamingText:
        """The state before the first output token."""
        return cls(Detokenizer(pieces), StopStrings(tuple(stop_strings)))

    def advance(self, token: int) -> tuple[StreamingText, bool]:
        """State after `token`, and whether a stop string was completed by it."""
        detokenizer, text = self.detokenizer.advance(token)
        stops, visible = self.stops.advance(text)
        return StreamingText(detokenizer, stops, self.ready + visible), stops.matched is not None

    def take(self) -> tuple[StreamingText, str]:
        """The text that became certain since the last take."""
        return replace(self, ready=""), self.ready

    def finish(self) -> tuple[StreamingText, str]:
        """All text not taken yet, at the end of the output; behind a stop string there is none."""
        detokenizer, rest = self.detokenizer.finish()
        stops, visible = self.stops.advance(rest)
        stops, held = stops.finish()
        return StreamingText(detokenizer, stops), self.ready + visible + held
