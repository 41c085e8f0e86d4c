"""Foreign strings are never markup: only `eredu.files.plain_console` makes what draws on a terminal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("eredu", "conformance/eredu_conformance", "conformance/eredu_validation", "benchmarks")
READER = "eredu/files/plain_console.py"
MADE = {"Console", "TextColumn", "SpinnerColumn", "RenderableColumn", "track", "from_markup", "inspect", "Prompt"}
"""What reads markup in strings, or makes what does."""
MODULES = ("rich", "html")


def drawing(text: str) -> list[str]:
    """Names that a module takes from rich to draw with, and from `html` to escape with."""
    tree = ast.parse(text)
    taken = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in MODULES
        for alias in node.names
    ]
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    } | {ast.unparse(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
    marked = [
        "markup=True"
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "markup" and ast.unparse(node.value) != "False"
    ]
    used = [name for name in taken if name in MADE and name in called]
    used += list(called & {"from_markup"})
    return used + [name for name in taken if name in {"escape", "print", "track"}] + marked


def test_nothing_else_draws() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    found = {file.relative_to(ROOT).as_posix(): drawing(file.read_text(encoding="utf-8")) for file in files}
    assert found.pop(READER)
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("from rich.console import Console\nConsole()", True),
        ("from rich.progress import TextColumn\nTextColumn('{task.description}')", True),
        ("from rich.text import Text\nText.from_markup(x)", True),
        ("from rich.console import Console\nclass Mine(Console): ...", True),
        ("from rich import print\nprint(x)", True),
        ("from html import escape\nescape(x)", True),
        ("console.print(x, markup=True)", True),
        ("console.print(x, markup=False)", False),
        ("from rich.console import Console\ndef show(console: Console) -> None: ...", False),
        ("from rich.table import Table\nTable()", False),
    ],
)
def test_the_rule_tells_right_from_wrong(text: str, *, wrong: bool) -> None:
    assert bool(drawing(text)) == wrong
