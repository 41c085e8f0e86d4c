"""What rendering one chat template may cost: steps, characters and time, counted while it runs.

A template is a program by a stranger. The sandbox keeps it from acting; this keeps it from running on: every turn of a
loop, call, filter and operator is a step, every value that it makes is weighed before it is made where it could be
larger than what it is made of, and a clock is looked at in between. All bounds are far past what chats need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import jinja2

from eredu.text.template_growth import ITEM, grown

MOST_STEPS = 2_000_000
MOST_SECONDS = 10.0
MOST_IN_A_VALUE = 1 << 23
"""Characters of one value, two million tokens; an item of a list counts `ITEM`."""
MOST_IN_ALL = 1 << 27
"""Characters of all values made and all text put out."""
MOST_BITS = 1 << 14
"""Bits of a whole number: Python writes no more than 4,300 digits."""
STEPS_A_LOOK = 32
"""Steps between two looks at the clock: each takes a few milliseconds at the very most."""
ITEMS_A_LOOK = 4096

ValueT = TypeVar("ValueT")


class TemplateLimitError(jinja2.TemplateError):
    """A template was stopped. Its message says at which bound."""


@dataclass
class Budget:
    """What one rendering has used.

    Attributes:
        deadline_s: Monotonic time when it is stopped.
        steps: Steps taken.
        characters: Characters made.
        weighed: Items weighed.
        weights: Weights of collections by identity, each with the collection, which so stays alive; the sandbox lets
            no template change one. What a namespace lies in is not among them, for namespaces change.
        namespaces: Namespaces weighed.
    """

    deadline_s: float = field(default_factory=lambda: monotonic() + MOST_SECONDS)
    steps: int = 0
    characters: int = 0
    weighed: int = 0
    weights: dict[int, tuple[Any, int]] = field(default_factory=dict)
    namespaces: int = 0

    def spend(self, characters: int = 0) -> bool:
        """Take a step that makes so many characters; true, so that it may stand in a condition."""
        self.steps += 1
        self.characters += characters
        if self.steps > MOST_STEPS:
            raise TemplateLimitError(f"it takes more than {MOST_STEPS:,} steps")
        if self.characters > MOST_IN_ALL:
            raise TemplateLimitError(f"it makes more than {MOST_IN_ALL:,} characters")
        if self.steps % STEPS_A_LOOK == 0:
            self._look()
        return True

    def made(self, value: ValueT) -> ValueT:
        """Count a value that was made."""
        weight = self.weigh(value)
        fresh = ITEM * len(value) if _is_collection(value) else weight  # type: ignore[arg-type]
        self.spend(fresh)
        return value

    def put_out(self, value: Any) -> None:
        """Count a value whose text is put out, all that lies in it with it."""
        self.spend(self.weigh(value))

    def weigh(self, value: Any) -> int:
        """Characters of a value, with all that lies in it as often as it lies there: what writing it out takes.

        Raises `TemplateLimitError` past `MOST_IN_A_VALUE`, and so ends after as many items whatever was made of it.
        """
        known = self.weights.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        weight, namespaces = 1, self.namespaces
        if isinstance(value, str | bytes):
            weight = len(value)
        elif isinstance(value, int):
            weight = require_short(value).bit_length() // 8
        elif isinstance(value, jinja2.utils.Namespace):
            self.namespaces += 1
            weight = self._weigh_all(object.__getattribute__(value, "_Namespace__attrs").values())
        elif isinstance(value, Mapping):
            weight = self._weigh_all((*value.keys(), *value.values()))
        elif _is_collection(value):
            weight = self._weigh_all(value)
        self.require(weight)
        if isinstance(value, dict | list | tuple) and self.namespaces == namespaces:
            self.weights[id(value)] = (value, weight)
        return weight

    def require(self, weight: int) -> None:
        """Raise `TemplateLimitError` for a weight past what a value may have."""
        if weight > MOST_IN_A_VALUE:
            raise TemplateLimitError(f"it makes a value of more than {MOST_IN_A_VALUE:,} characters")

    def require_room(self, name: str, value: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Raise `TemplateLimitError` where a filter, a method or an operator would make too large a value."""
        given = (*arguments, *named.values())
        own, heaviest = self.weigh(value), max(map(self.weigh, given), default=0)
        self.require(own + grown(name, value, given, heaviest=heaviest))

    def _look(self) -> None:
        if monotonic() > self.deadline_s:
            raise TemplateLimitError(f"it takes longer than {MOST_SECONDS:g} s")

    def _weigh_all(self, items: Iterable[Any]) -> int:
        weight = 0
        for item in items:
            self.weighed += 1
            if self.weighed % ITEMS_A_LOOK == 0:
                self._look()
            weight += ITEM + self.weigh(item)
            self.require(weight)
        return weight


def _is_collection(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def require_short(number: int) -> int:
    """A whole number. Raises `TemplateLimitError` for one of thousands of digits."""
    if number.bit_length() > MOST_BITS:
        raise TemplateLimitError(f"it makes a whole number of more than {MOST_BITS:,} bits")
    return number


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budgeted() -> Any:
    """Render inside of it: everything in this thread is counted on a fresh budget."""
    token = _BUDGET.set(Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def budget() -> Budget:
    """The budget of the rendering under way; a fresh one outside of any, as where constants are folded."""
    return _BUDGET.get() or Budget()
