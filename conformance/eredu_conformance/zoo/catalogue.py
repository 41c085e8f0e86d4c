"""Every member of the zoo by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from eredu_conformance.zoo.deepseek import deepseek_v3, deepseek_v32
from eredu_conformance.zoo.dense import llama, qwen3
from eredu_conformance.zoo.edges import edges
from eredu_conformance.zoo.member import ZooMember
from eredu_conformance.zoo.nemotron import nemotron_h
from eredu_conformance.zoo.qwen import qwen3_next, qwen35, qwen35_moe

_MAKERS: dict[str, Callable[[], ZooMember]] = {
    "llama": llama,
    "qwen3": qwen3,
    "qwen3.5": qwen35,
    "qwen3.5-moe": qwen35_moe,
    "qwen3-next": qwen3_next,
    "nemotron-h": nemotron_h,
    "deepseek-v3": deepseek_v3,
    "deepseek-v3.2": deepseek_v32,
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
