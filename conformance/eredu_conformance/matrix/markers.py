"""Markers: comment lines that name the rules which the statement below them implements, or the test below tests.

    # rule: commit.leading-token-uncached
    record.round = Round(depth)

A marker stands alone on its line, right above the statement, or above the decorators of a function. Several rules are
parted by commas. It costs nothing when the code runs and moves with the code when it is edited.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_MARKER = "# rule: "
_RULES = re.compile(r"[a-z]+\.[a-z0-9-]+(, [a-z]+\.[a-z0-9-]+)*")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class MarkerError(ValueError):
    """A marker that is not written as this module says."""


@dataclass(frozen=True, order=True, slots=True)
class Site:
    """A place that says it stands for a rule.

    Attributes:
        path: Its file, from the root of the repository, with slashes.
        line: Line of the statement, from 1.
        name: The innermost function or class around it, with those around that, or the name that a module assigns.
    """

    path: str
    line: int
    name: str

    @property
    def test_id(self) -> str:
        """What pytest calls the test that the site is."""
        return "::".join((self.path, *self.name.split(".")))

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" {self.name}" if self.name else "")


class _Span(NamedTuple):
    first: int
    last: int
    name: str


def marked_sites(folder: Path, root: Path) -> dict[str, list[Site]]:
    """Sites below `folder` by rule, paths taken from `root`. Raises `MarkerError` for one that is malformed."""
    found: dict[str, list[Site]] = {}
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if _MARKER in text:
            for rule, site in sites_in(file.relative_to(root).as_posix(), text):
                found.setdefault(rule, []).append(site)
    return found


def sites_in(path: str, text: str) -> Iterator[tuple[str, Site]]:
    """Rules and sites of one file, from top to bottom."""
    lines, spans = text.splitlines(), list(_spans(ast.parse(text), ()))
    for number, column, names in _markers(text):
        if lines[number - 1][:column].strip():
            raise MarkerError(f"{path}:{number} has a marker behind code; put it on a line of its own above")
        if not _RULES.fullmatch(names):
            raise MarkerError(f"{path}:{number} says '# rule: {names}'; expected area.name, with ', ' between several")
        below = _statement_below(lines, number)
        if below is None:
            raise MarkerError(f"{path}:{number} has a marker with no statement right below it")
        name = max((span for span in spans if span.first <= below <= span.last), default=_Span(0, 0, "")).name
        for rule in names.split(", "):
            yield rule, Site(path, below, name)


def _markers(text: str) -> Iterator[tuple[int, int, str]]:
    """Line and column of every comment that is a marker, and what it names."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.string.startswith(_MARKER):
            yield *token.start, token.string.removeprefix(_MARKER)


def _statement_below(lines: list[str], number: int) -> int | None:
    """Number of the first line behind line `number` that is no comment; None if that is empty or not there."""
    for below, line in enumerate(lines[number:], start=number + 1):
        if not line.lstrip().startswith("#"):
            return below if line.strip() else None
    return None


def _spans(node: ast.AST, around: tuple[str, ...]) -> Iterator[_Span]:
    """Lines of every function, class and name of the module; an inner one starts later than those around it."""
    for child in ast.iter_child_nodes(node):
        inside = around
        if isinstance(child, Definition):
            inside = (*around, child.name)
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield _Span(first, child.end_lineno or first, ".".join(inside))
        elif isinstance(child, ast.Assign) and not around and isinstance(child.targets[0], ast.Name):
            yield _Span(child.lineno, child.end_lineno or child.lineno, child.targets[0].id)
        yield from _spans(child, inside)
