"""Stop strings in a growing text: what may begin one is held back, and the text is cut where one begins.

The earliest completed stop string wins; of several that end at the same character, the longest. Both are properties
of the text alone, so the cut does not depend on how the text was chunked. Stop sequences of token ids are the
terminal walk's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eredu.contract.errors import OptionError


@dataclass(frozen=True, slots=True)
class StopStrings:
    """Matches stop strings as an immutable value.

    Attributes:
        strings: The stop strings, none of them empty.
        held: The end of the text that may yet become a stop string; shorter than the longest of them.
        matched: The stop string that was found, or None. After a match no text comes any more.
    """

    strings: tuple[str, ...] = ()
    held: str = ""
    matched: str | None = None

    def __post_init__(self) -> None:
        if not all(self.strings):
            raise OptionError("stop strings hold an empty one, which would stop before any text; leave it out")

    def advance(self, text: str) -> tuple[StopStrings, str]:
        """State after `text`, and the text that is now certain to be visible."""
        if self.matched is not None or not text:
            return self, ""
        waiting = self.held + text
        found = self._first_match(waiting)
        if found is not None:
            start, stop = found
            return replace(self, held="", matched=stop), waiting[:start]
        keep = self._possible_start(waiting)
        return replace(self, held=waiting[keep:]), waiting[:keep]

    def finish(self) -> tuple[StopStrings, str]:
        """State without held text, and that text: at the end of the output it is visible after all."""
        return replace(self, held=""), self.held

    def _first_match(self, text: str) -> tuple[int, str] | None:
        starts = ((text.find(stop), stop) for stop in self.strings)
        ends = [(start + len(stop), start, stop) for start, stop in starts if start >= 0]
        return min(ends)[1:] if ends else None

    def _possible_start(self, text: str) -> int:
        """Where the longest end of `text` that begins a stop string starts; its length if there is none."""
        longest = max(map(len, self.strings), default=1) - 1
        candidates: Iterable[int] = range(max(0, len(text) - longest), len(text))
        return next((at for at in candidates if any(s.startswith(text[at:]) for s in self.strings)), len(text))
