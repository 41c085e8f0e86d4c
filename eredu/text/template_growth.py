"""How much longer a filter, a method or an operator makes a value: known from its arguments, before it is asked.

`'a'|center(10**9)` and `'a' * 10**9` make a gigabyte of a few characters. Everything else that a template can ask for
gives at most a few times what it is given.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

ITEM = 16
"""What an item of a collection counts, in characters: about its memory."""
_WIDTHS = re.compile(r"\d+")
_A_URL = 64
"""Characters that `urlize` puts around an address."""


@dataclass(frozen=True)
class _Given:
    """What a filter is applied to, and its arguments.

    Attributes:
        value: The former.
        arguments: The latter, named ones too.
        heaviest: Characters of the largest of them, written out.
    """

    value: Any
    arguments: tuple[Any, ...]
    heaviest: int

    @property
    def size(self) -> int:
        """Characters or items of the value."""
        return len(self.value) if isinstance(self.value, Sized) else 1

    @property
    def text(self) -> str:
        """The value, where it is a text."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def number(self) -> int:
        """The largest whole number among the arguments."""
        return max((abs(each) for each in self.arguments if isinstance(each, int)), default=0)

    @property
    def longest(self) -> int:
        """Characters of the longest text among the arguments."""
        return max((len(each) for each in self.arguments if isinstance(each, str | bytes)), default=0)

    @property
    def words(self) -> int:
        """Pieces that splitting the text makes: at the separator that is given, or at white space."""
        separators = [each for each in self.arguments if isinstance(each, str)] or list(string.whitespace)
        return 1 + sum(self.text.count(separator) for separator in separators if separator)

    def replaced(self) -> int:
        """Each place found makes room for what replaces it."""
        match self.value, self.arguments:
            case str(text), [str(old), str(new), *_]:
                return text.count(old) * len(new)
            case _:
                return (1 + len(str(self.value))) * self.longest

    def formatted(self) -> int:
        """Each field is written at its width, which may be a number in the format or among its arguments."""
        form = self.text
        widths = sum(int(digits[:9]) for digits in _WIDTHS.findall(form))
        fields = form.count("%") + form.count("{")
        return widths + fields * (self.heaviest + (self.number if "*" in form or ":{" in form else 0))


_ADDED: dict[str, Callable[[_Given], int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes"), lambda given: given.number),
    **dict.fromkeys(("batch", "slice"), lambda given: given.number * ITEM),
    "round": lambda given: given.number * given.number,  # it takes ten to that power
    "expandtabs": lambda given: given.size * max(8, given.number),
    "indent": lambda given: (1 + given.text.count("\n")) * max(4, given.number, given.longest),
    **dict.fromkeys(("join", "wordwrap", "translate"), lambda given: given.size * given.heaviest),
    **dict.fromkeys(("split", "rsplit", "splitlines"), lambda given: given.words * ITEM),
    **dict.fromkeys(("list", "title", "wordcount"), lambda given: len(given.text) * ITEM),
    "replace": _Given.replaced,
    "urlize": lambda given: given.size * (given.longest + _A_URL),
    **dict.fromkeys(("format", "format_map", "%"), _Given.formatted),
}


def grown(name: str, value: Any, arguments: Sequence[Any], *, heaviest: int) -> int:
    """Characters that are added at the most.

    Args:
        name: Of the filter, the method or the operator.
        value: What it is applied to.
        arguments: Its arguments, named ones too.
        heaviest: Characters of the largest of them, written out.
    """
    return _ADDED[name](_Given(value, tuple(arguments), heaviest)) if name in _ADDED else 0
