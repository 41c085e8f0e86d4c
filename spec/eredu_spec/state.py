"""The state of the machine: requests as values that are compared by identity.

Equal requests are one object (`intern`), so that a state is a tuple of pointers: hashing it costs nothing, which is
what lets exhaustive exploration and exact propagation share one transition function.
"""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from eredu_spec.request import Request, Settings

State = tuple[Request, ...]
"""The machine: its requests, in the order in which the ring serves them next; where every interleaving is explored, in
the order in which they were opened. A plain tuple, because exploration makes millions of them."""

_values = attrgetter(*(item.name for item in fields(Request)))
_POOL: WeakValueDictionary[Any, Request] = WeakValueDictionary()


def intern(request: Request) -> Request:
    """The one object that stands for all requests equal to this one."""
    return _POOL.setdefault(_values(request), request)


def evolve(request: Request, **changes: Any) -> Request:
    """The request with some fields changed."""
    return intern(replace(request, **changes))


def opened(settings: Settings) -> Request:
    """A request as it is taken in: nothing cached, nothing drafted, the drafter in step with the prompt."""
    return intern(Request(settings, requested=settings.requested, frontier=len(settings.prompt)))


def moved(before: State, after: State) -> list[tuple[Request, Request]]:
    """Who moved from a state to one behind it, as pairs of what it was and what it is, in the order behind.

    One pair, save for a group that was submitted.
    """
    were = {request.settings.number: request for request in before}
    pairs = ((were[request.settings.number], request) for request in after)
    return [(was, request) for was, request in pairs if was is not request]
