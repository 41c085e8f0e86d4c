"""Seams: what is found by object and by shape, what does not matter to them, and what a wrong one is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eredu.contract.options import GenerationOptions
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu_conformance.faults.engine.seam import Wrapped, place_of, plant
from eredu_conformance.faults.engine.syntax import Rewritten

ROOM = """
import functools


def clip(wanted, left):
    return min(wanted, left - 1)


def decorated(function):
    return lambda *arguments: function(*arguments)


@decorated
def hidden():
    return 1


class Base:
    def keep(self, rows):
        return rows


class Cache(Base):
    def keep(self, rows, *, more=0):
        # a comment
        kept = super().keep(rows) + more
        self.told = kept
        if kept < 0:
            kept = 0
        return kept


    @property
    def length(self):
        return 3
"""
USER = "from eredu.room import clip\n\ndef depth(left):\n    return clip(9, left)\n"


def one_more(right: Callable[[int, int], int], wanted: int, left: int) -> int:
    return right(wanted, left + 1)


def module(name: str, text: str, folder: Path) -> Any:
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    made = ModuleType(f"eredu.{name}")
    sys.modules[made.__name__] = made
    exec(compile(text, str(file), "exec"), vars(made))
    return made


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Any]:
    before = set(sys.modules)
    yield module("room", ROOM, tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_wrapped_function_is_wrong_wherever_it_was_imported(room: Any, tmp_path: Path) -> None:
    user = module("user", USER, tmp_path)
    assert (room.clip(9, 5), user.depth(5)) == (4, 4)
    plant(Wrapped(room.clip, one_more))
    assert (room.clip(9, 5), user.depth(5)) == (5, 5)
    assert room.clip.__name__ == "clip"


def test_a_method_is_rewritten_with_its_defaults_and_its_class(room: Any) -> None:
    plant(Rewritten(room.Cache.keep, "super().keep(R) + M", "super().keep(R) + M + 1"))
    assert (room.Cache().keep(3), room.Cache().keep(3, more=2), room.Base().keep(3)) == (4, 6, 3)


def test_statements_are_rewritten_as_one(room: Any) -> None:
    plant(Rewritten(room.Cache.keep, "K = A + B; self.told = K", "self.told = A; K = A"))
    cache = room.Cache()
    assert (cache.keep(3, more=2), cache.told) == (3, 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("wanted", "asked"),
        ("min(wanted, left - 1)", "min(\n        wanted,  # asked for\n        (left - 1),\n    )"),
        ("    return min(wanted, left - 1)", '    """Clip."""\n    depth = min(wanted, left - 1)\n    return depth'),
    ],
)
def test_names_layout_and_neighbours_do_not_matter(room: Any, tmp_path: Path, before: str, after: str) -> None:
    other = module("room", ROOM.replace(before, after), tmp_path)
    plant(Rewritten(other.clip, "min(W, L - 1)", "min(W, L)"))
    assert other.clip(9, 5) == 5
    assert room.clip(9, 5) == 4


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("max(W, L)", r"matches 0 places of eredu\.room\.Cache\.keep, and must match one\n  compare super\(\)\.keep"),
        ("kept", "matches 3 places"),
        ("self.told = K; K = 0", "matches 0 places"),
        ("A + A", "matches 0 places"),
    ],
)
def test_a_pattern_matches_one_place(room: Any, pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rewritten(room.Cache.keep, pattern, "0").wrong_version()


def test_a_change_that_loses_the_class_is_refused(room: Any) -> None:
    with pytest.raises(ValueError, match="closes over other variables"):
        Rewritten(room.Cache.keep, "super().keep(R)", "R").wrong_version()


def test_a_seam_is_a_function_of_eredu_under_its_own_name(room: Any) -> None:
    assert place_of(room.Cache.keep) == (room.Cache, "keep")
    assert place_of(SpeculativeScheduler._serve) == (SpeculativeScheduler, "_serve")
    for wrong, said in [
        (room.Cache.length, "is property; a seam is a plain function"),
        (GenerationOptions, "is type; a seam is a plain function"),
        (wraps, "is function; a seam is a plain function or method of a module of eredu"),
        (room.hidden, "it is decorated or defined inside a function"),
    ]:
        with pytest.raises(ValueError, match=said):
            place_of(wrong)
