"""What every check of a family needs: its directory, prompts on both sides of its boundary, and its failures told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from eredu_conformance.checks.check import Check, Needs
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.zoo import zoo_member

ENGINE = Needs(engines=frozenset({"eredu"}))
"""They look into eredu."""

SHORT = 3
BEYOND = 16
"""Tokens of the prompt before every boundary, and behind the boundary of the prompt after it."""

LAYOUTS: dict[Path, Path] = {}
"""Directories that are written already; a process writes each of them once."""


def family_check(
    claim: str, family: str, *, rule: str, about: str, run: Callable[..., Observation], setting: str = ""
) -> Check:
    """A check of one family, which `run` is given first."""
    return Check(
        id=f"family.{claim}/{family}" + (f"/{setting}" if setting else ""),
        rule=rule,
        about=about,
        family=family,
        needs=ENGINE,
        run=partial(run, family),
    )


def written(session: SubjectSession, name: str, write: Callable[[Path], Path]) -> Path:
    """A directory on the session, written on first use."""
    place = session.directory / "zoo" / name
    if place not in LAYOUTS:
        place.parent.mkdir(parents=True, exist_ok=True)
        LAYOUTS[place] = write(place)
    return LAYOUTS[place]


def published(session: SubjectSession, family: str) -> Path:
    """The family's checkpoint as published."""
    return written(session, family, zoo_member(family).write)


def text(length: int, start: int = 0) -> tuple[int, ...]:
    """Ids that look like nothing in particular, all different from one start to the next."""
    return tuple((7 * i * i + 3 * i + 5) % 64 for i in range(start, start + length))


def places(family: str) -> dict[str, int]:
    """Prompt lengths before and after the family's boundary; without one, a short and a longer prompt."""
    return {"before": SHORT, "after": (zoo_member(family).boundary or SHORT) + BEYOND}


def parted(message: str, history: tuple[int, ...] = (), **case: Any) -> CheckFailure:
    """The failure of a check."""
    return CheckFailure(message, history=history, case=case)


def outputs_apart(what: str, found: tuple[int, ...], due: tuple[int, ...], prompt: tuple[int, ...]) -> CheckFailure:
    """The failure of an output that is not the one that is due."""
    pairs = zip(found, due, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(found), len(due)))
    message = f"{what}: got {list(found)}, due {list(due)}; they part at output {place}"
    return parted(message, prompt + due[:place])
