"""Every member of the zoo by name: the files of `members` are found by themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from eredu_conformance.zoo import members
from eredu_conformance.zoo.edges import edges
from eredu_conformance.zoo.member import ZooMember

_FILES = [import_module(f"{members.__name__}.{found.name}") for found in iter_modules(members.__path__)]
_MAKERS: dict[str, Callable[[], ZooMember]] = {
    name: maker for file in sorted(_FILES, key=lambda file: file.PLACE) for name, maker in file.MEMBERS.items()
}

MEMBERS: tuple[str, ...] = tuple(_MAKERS)
"""Names, in the order in which they are shown: one a family."""


@cache
def zoo_member(name: str) -> ZooMember:
    """The member or the edge of that name. Raises `KeyError` with the names that there are."""
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker()
    found = zoo_edges().get(name)
    if found is None:
        raise KeyError(f"the zoo has no {name!r}; it has {', '.join((*MEMBERS, *zoo_edges()))}")
    return found


@cache
def zoo_edges() -> dict[str, ZooMember]:
    """Members changed in one respect, by name: see `edges`."""
    return {member.name: member for member in edges()}
