"""Reading JSON values by hand, with errors that name the place: the runner needs no schema library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from eredu_conformance.protocol.errors import MessageError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

Reader = Callable[[Any, str], T]
"""Turns a JSON value into a T; the string is the value's path, for the error."""


def whole(value: Any, path: str) -> int:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise MessageError(f"{path} is {value!r}; expected a whole number")
    return value


def count(value: Any, path: str) -> int:
    """A whole number, 0 or more."""
    if whole(value, path) < 0:
        raise MessageError(f"{path} is {value!r}; expected 0 or more")
    return int(value)


def number(value: Any, path: str) -> float:
    """A finite number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise MessageError(f"{path} is {value!r}; expected a finite number")
    return float(value)


def text(value: Any, path: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise MessageError(f"{path} is {value!r}; expected a string")
    return value


def flag(value: Any, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise MessageError(f"{path} is {value!r}; expected true or false")
    return value


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise MessageError(f"{path} is {_short(value)}; expected an object")
    return value


def member(kind: type[E]) -> Reader[E]:
    """A reader of one of the enumeration's values."""

    def read(value: Any, path: str) -> E:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(item.value for item in kind)
            raise MessageError(f"{path} is {value!r}; expected one of {known}") from None

    return read


def several(item: Reader[T]) -> Reader[tuple[T, ...]]:
    """A reader of an array."""

    def read(value: Any, path: str) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise MessageError(f"{path} is {_short(value)}; expected an array")
        return tuple(item(entry, f"{path}[{index}]") for index, entry in enumerate(value))

    return read


def maybe(item: Reader[T]) -> Reader[T | None]:
    """A reader of a value or null."""

    def read(value: Any, path: str) -> T | None:
        return None if value is None else item(value, path)

    return read


def record(value: Any, path: str, readers: Mapping[str, Reader[Any]], *, optional: frozenset[str]) -> dict[str, Any]:
    """The members of an object, each by its reader. Unknown members and absent ones that aren't optional are errors."""
    members = mapping(value, path)
    if unknown := sorted(set(members) - set(readers)):
        raise MessageError(f"{path} has unknown members {unknown}; known: {sorted(readers)}")
    if absent := sorted(set(readers) - set(members) - optional):
        raise MessageError(f"{path} lacks {absent}")
    return {name: readers[name](content, f"{path}.{name}") for name, content in members.items()}


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
