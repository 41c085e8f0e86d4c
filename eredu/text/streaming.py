"""Text that grows with the tokens: append-only, and never a part of a character.

Bytes of a character that is not complete yet wait in the state. Bytes that can no longer become one turn into
U+FFFD, one for each maximal subpart (Unicode 16, section 3.9), so the text is the same however the ids are chunked,
and the same as decoding all of them at once.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from eredu.text.pieces import TokenPieces
from eredu.text.stops import StopStrings


@dataclass(frozen=True, slots=True)
class Detokenizer:
    """Incremental decoding of one output as an immutable value.

    Attributes:
        pieces: Bytes of every id.
        pending: Bytes of a character that is not complete: at most three.
        at_start: Whether no byte has come yet, so that a SentencePiece leading space is still to be dropped.
    """

    pieces: TokenPieces
    pending: bytes = b""
    at_start: bool = True

    def advance(self, token: int) -> tuple[Detokenizer, str]:
        """State after `token`, and the characters that it completed. Raises `TokenizerError` for a padding id."""
        fresh = self.pieces.bytes_of(token, at_start=self.at_start)
        at_start = self.at_start and not self.pieces.ends_start(token)
        if not fresh:
            return (self if at_start == self.at_start else replace(self, at_start=at_start)), ""
        waiting = self.pending + fresh
        text, consumed = codecs.utf_8_decode(waiting, "replace", False)  # noqa: FBT003 (it takes no keyword)
        return replace(self, pending=waiting[consumed:], at_start=at_start), text

    def finish(self) -> tuple[Detokenizer, str]:
        """State without pending bytes, and what they come to at the end of the output: U+FFFD or nothing."""
        return replace(self, pending=b""), self.pending.decode("utf-8", "replace")


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


def decode(pieces: TokenPieces, tokens: Iterable[int]) -> str:
    """Text of a whole sequence of ids."""
    state, parts = Detokenizer(pieces), []
    for token in tokens:
        state, text = state.advance(token)
        parts.append(text)
    return "".join([*parts, state.finish()[1]])
