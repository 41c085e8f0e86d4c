"""Where the machine obeys a rule: a decorator that notes the place and leaves the function as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Site = TypeVar("Site", bound=Callable[..., Any])

_SITES: dict[str, list[str]] = {}


def obeys(*rules: str) -> Callable[[Site], Site]:
    """Note that the decorated function or class is a model site of the rules named."""

    def note(site: Site) -> Site:
        place = f"{site.__module__}.{site.__qualname__}"
        for rule in rules:
            _SITES.setdefault(rule, []).append(place)
        return site

    return note


def noted_sites() -> dict[str, tuple[str, ...]]:
    """Model sites by rule, of the modules imported so far."""
    return {rule: tuple(places) for rule, places in sorted(_SITES.items())}
