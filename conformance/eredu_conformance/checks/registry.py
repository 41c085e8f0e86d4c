"""All checks. A kind plugs in by being a package beside this file that has a function `checks()`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from eredu_conformance import checks as package
from eredu_conformance.checks.check import Check, Kind


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check of every kind that is there, in the order of the kinds.

    Raises:
        ValueError: an id stands twice.
    """
    present = {module.name for module in iter_modules(package.__path__) if module.ispkg}
    found: dict[str, Check] = {}
    for kind in Kind:
        if kind.value not in present:
            continue
        for check in import_module(f"{package.__name__}.{kind.value}").checks():
            if check.id in found:
                raise ValueError(f"two checks are called {check.id}; an id names one claim")
            found[check.id] = check
    return tuple(found.values())


def check_named(name: str) -> Check:
    """The check of that id. Raises `KeyError` where there is none."""
    for check in all_checks():
        if check.id == name:
            return check
    raise KeyError(f"no check is called {name!r}; `eredu conformance --list` shows all")
