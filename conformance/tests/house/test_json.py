"""JSON is parsed by `eredu.files.json_reading` alone, so that no file or line can exhaust memory or the stack."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = (
    "eredu",
    "conformance/eredu_conformance",
    "conformance/eredu_validation",
    "benchmarks",
    "reference/eredu_reference",
    "spec/eredu_spec",
)
REASONS = {
    "eredu/files/json_reading.py": "the reader itself",
    "spec/eredu_spec/trace_form.py": "the specification stands on the standard library alone; it answers the same",
}
PARSERS = {"load", "loads", "JSONDecoder", "raw_decode"}


def parses_json(text: str) -> bool:
    """Whether a module's text parses JSON by the standard library, under whatever name it was imported."""
    if "json" not in text:
        return False
    tree = ast.parse(text)
    modules, functions = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name in {"json", "json.decoder"}}
        elif isinstance(node, ast.ImportFrom) and node.module in {"json", "json.decoder"}:
            functions |= {alias.asname or alias.name for alias in node.names if alias.name in PARSERS}
    return bool(functions) or any(
        isinstance(node, ast.Attribute) and node.attr in PARSERS and ast.unparse(node.value) in modules
        for node in ast.walk(tree)
    )


def splits_at_more_than_line_feeds(text: str) -> bool:
    """Whether a module that reads JSON lines splits text where Python sees a line end: at U+2028, U+0085 and more."""
    return (
        "splitlines" in text
        and ("json_reading" in text or parses_json(text))
        and any(isinstance(node, ast.Attribute) and node.attr == "splitlines" for node in ast.walk(ast.parse(text)))
    )


def modules() -> dict[str, str]:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}


def test_json_is_parsed_in_one_place() -> None:
    found = {name for name, text in modules().items() if parses_json(text)}
    assert found == REASONS.keys(), "parse with eredu.files.json_reading, or give a reason above"


def test_lines_of_json_end_at_line_feeds() -> None:
    assert [name for name, text in modules().items() if splits_at_more_than_line_feeds(text)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import json\njson.loads(x)", True),
        ("import json as j\nj.load(f)", True),
        ("from json import loads as read\nread(x)", True),
        ("import json\njson.JSONDecoder().decode(x)", True),
        ("import json\njson.dumps(x)", False),
        ("import pickle\npickle.loads(x)", False),
        ("from eredu.files.json_reading import parse_json\nparse_json(x)", False),
    ],
)
def test_the_rule_tells_right_from_wrong(text: str, *, wrong: bool) -> None:
    assert parses_json(text) == wrong
    assert splits_at_more_than_line_feeds(f"{text}\nx.splitlines()") == (wrong or "json_reading" in text)
