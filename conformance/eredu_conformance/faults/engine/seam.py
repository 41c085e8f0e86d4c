"""Seams: a function of eredu, and what stands in its place while a fault is planted.

A seam names its function by the object itself, so that a rename is followed by an editor, and a name that is gone is
found by mypy and at import. Two kinds: `Wrapped` puts a wrong function in front of the right one; `Rewritten` (in
`syntax`) compiles the right one anew with one expression changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Seam(Protocol):
    """Where a fault sits, and the wrong version of what is there."""

    @property
    def at(self) -> Callable[..., Any]:
        """The right function of eredu."""

    def wrong_version(self) -> Callable[..., Any]:
        """What stands in its place. Raises `ValueError` where that cannot be made of the function as it is."""


@dataclass(frozen=True)
class Wrapped(Generic[P, R]):
    """A wrong function in front of the right one, which it is given as its first argument.

    Attributes:
        at: The right function.
        wrong: The wrong one.
    """

    at: Callable[P, R]
    wrong: Callable[Concatenate[Callable[P, R], P], R]

    def wrong_version(self) -> Callable[P, R]:
        """The wrong function, with the right one's name and signature."""

        @wraps(self.at)
        def replaced(*args: P.args, **kwargs: P.kwargs) -> R:
            return self.wrong(self.at, *args, **kwargs)

        return replaced


def place_of(function: Callable[..., Any]) -> tuple[ModuleType | type, str]:
    """The module or class of eredu that defines a function, and its name there.

    Raises:
        ValueError: It is no plain function that a module or a class of eredu defines under its own name.
    """
    described = f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', function)}"
    if not isinstance(function, FunctionType) or not function.__module__.startswith("eredu."):
        raise ValueError(
            f"{described} is {type(function).__name__}; a seam is a plain function or method of a module of eredu "
            "(of a property, name a function that it calls)"
        )
    *owners, name = function.__qualname__.split(".")
    owner: Any = sys.modules[function.__module__]
    for each in owners:
        owner = getattr(owner, each, None)
    if owner is None or vars(owner).get(name) is not function:
        raise ValueError(
            f"{described} is not what stands under that name: it is decorated or defined inside a function; "
            "let the decorator use functools.wraps, or name a function around it"
        )
    return owner, name


def plant(seam: Seam) -> None:
    """Put the wrong version in place, in this process and for good.

    A function of a module is replaced wherever a loaded module of eredu has it by name, or in a table of its own;
    modules that are loaded later find the wrong one too.
    """
    owner, name = place_of(seam.at)
    wrong = seam.wrong_version()
    setattr(owner, name, wrong)
    if isinstance(owner, ModuleType):
        for held in _holders(seam.at):
            held.update(dict.fromkeys([key for key, value in held.items() if value is seam.at], wrong))


def _holders(function: Callable[..., Any]) -> Iterator[dict[Any, Any]]:
    """Names of loaded modules, and their tables, that have the function."""
    for module in [module for name, module in sys.modules.items() if name.startswith("eredu.")]:
        tables = [value for value in vars(module).values() if isinstance(value, dict)]
        yield from (held for held in (vars(module), *tables) if any(value is function for value in held.values()))
