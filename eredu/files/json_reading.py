"""JSON that others wrote, read within bounds: the one place where eredu's packages parse it.

A text is UTF-8 and one JSON value. Bounds come before trust: bytes, marks (commas, colons and brackets, which memory
and time go with) and nesting. Of equal names in one object the last counts, as in every common reader, unless
`unique` refuses them; NaN and infinities are read, for published configs hold them, unless `finite` refuses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from eredu.contract.errors import JsonError

MAX_BYTES = 1 << 28
"""Past the largest tokenizer there is, tenfold."""
MAX_MARKS = 1 << 23
"""Commas, colons and brackets: a vocabulary of a million tokens with its merges has six million."""
MAX_DEPTH = 128
"""Values inside values: the deepest that is published has about ten."""
MARKS = (b",", b":", b"[", b"{")

Raise = Callable[[str], Exception]
"""What is raised, from its message: a class of errors that takes one."""


def read_json(path: Path, *, error: Raise = JsonError, unique: bool = False, finite: bool = False) -> Any:
    """The value in a file. Raises `error` that names the file where it cannot be read, or is out of bounds."""
    return parse_json(read_bytes(path, error=error), name=str(path), error=error, unique=unique, finite=finite)


def read_bytes(path: Path, *, error: Raise = JsonError) -> bytes:
    """A file's bytes, and of one past the bound no more than show that. Raises `error` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as failure:
        raise error(f"{path} could not be read: {failure.strerror or failure}") from failure


def read_json_object(
    path: Path, *, error: Raise = JsonError, unique: bool = False, finite: bool = False
) -> dict[str, Any]:
    """The object in a file; raises as `read_json` does, and where the value is no object."""
    value = read_json(path, error=error, unique=unique, finite=finite)
    if not isinstance(value, dict):
        raise error(f"{path} holds a JSON {type(value).__name__}; expected an object")
    return value


def parse_json(
    data: bytes | str,
    *,
    name: str = "the text",
    error: Raise = JsonError,
    unique: bool = False,
    finite: bool = False,
    max_bytes: int = MAX_BYTES,
    max_marks: int = MAX_MARKS,
) -> Any:
    """The value of a text.

    Args:
        data: The text.
        name: What it is, for the message: a path, or a line of one.
        error: What is raised where it is no JSON or out of bounds.
        unique: Whether equal names in one object are refused.
        finite: Whether NaN and the infinities are refused.
        max_bytes: Most bytes of it.
        max_marks: Most commas, colons and brackets.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > max_bytes:
        raise error(f"{name} has more than {max_bytes} bytes, which is far past any JSON of its kind: it is damaged")
    marks = sum(raw.count(mark) for mark in MARKS)
    if marks > max_marks:
        raise error(
            f"{name} has {marks} commas, colons and brackets, far more than any JSON of its kind; eredu reads "
            f"{max_marks}: it is damaged, or was made to exhaust memory"
        )
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique if unique else None,
            parse_constant=_refuse_constant if finite else None,
        )
        nested = marks > MAX_DEPTH and _is_deeper(value, MAX_DEPTH)
    except RecursionError:
        nested = True
    except ValueError as failure:
        raise error(f"{name} could not be read as JSON ({failure}); it is damaged: fetch or write it again") from None
    if nested:
        raise error(
            f"{name} could not be read as JSON: it nests values more than {MAX_DEPTH} deep, which none of its "
            "kind does: it is damaged"
        )
    return value


def json_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line of JSON lines that is not blank.

    A line ends at a line feed and nowhere else: U+2028, U+0085 and their like are content. The carriage return of a
    Windows line end is white space to JSON, and stays.
    """
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name occurs twice")
    return unique


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"it holds the number {constant}, which is not finite")


def _is_deeper(value: Any, most: int) -> bool:
    """Whether values lie inside one another in more than `most` levels; walked level by level, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        if not level:
            return False
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in inner for child in children if isinstance(child, dict | list)]
    return bool(level)
