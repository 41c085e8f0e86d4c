"""Messages as one line of bounded length, whatever the files that they quote hold."""

from __future__ import annotations

import html
import unicodedata

MOST_CHARACTERS = 600
"""Characters of a message at the most; of a longer one the middle is left out."""
_ENDS = 240
_SHOWN = MOST_CHARACTERS * 4
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or does not show: controls, directions, surrogates, line ends."""


def one_line(text: str) -> str:
    """A message as one line of at most `MOST_CHARACTERS`: unseen characters escaped, the middle of a long one cut.

    A line end becomes a blank, for libraries put theirs into the middle of sentences; what a terminal would obey is
    spelled out as in a Python string.
    """
    left_out = len(text) - _SHOWN
    if left_out > 0:  # before it is looked at: a header's name can have millions of characters
        text = text[: _SHOWN // 2] + text[-_SHOWN // 2 :]
    shown = "".join(map(_visible, text))
    if len(shown) <= MOST_CHARACTERS and left_out <= 0:
        return shown
    omitted = len(shown) - 2 * _ENDS + max(0, left_out)
    return f"{shown[:_ENDS]} [... {omitted} characters ...] {shown[-_ENDS:]}"


def visible(text: str) -> str:
    """A text with what a terminal obeys or does not show spelled out; its line feeds stay."""
    if text.isprintable():  # nearly always
        return text
    return "".join(character if character == "\n" else _escaped(character) for character in text)


def html_text(text: str) -> str:
    """A text as HTML shows it, inside an element or an attribute: no markup of its own, nothing unseen."""
    return html.escape(visible(text))


def _visible(character: str) -> str:
    return " " if character in "\r\n" else _escaped(character)


def _escaped(character: str) -> str:
    if unicodedata.category(character) in _UNSEEN:
        return character.encode("unicode_escape").decode("ascii")
    return character
