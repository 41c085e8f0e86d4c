"""The house from outside: what stands at the top, what each room holds, and how long a file may be."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOP = {
    ".ci",
    ".gitignore",
    "LICENSE",
    "README.md",
    "benchmarks",
    "conformance",
    "eredu",
    "pyproject.toml",
    "reference",
    "spec",
}
ROOMS = {
    "spec": {"eredu_spec", "README.md"},
    "reference": {"eredu_reference", "README.md"},
    "conformance": {"eredu_conformance", "eredu_validation", "README.md", "tests"},
    "benchmarks": {"eredu_benchmarks", "README.md", "micro"},
}
PACKAGES = [ROOT / room / name for room, names in ROOMS.items() for name in sorted(names) if name.startswith("eredu")]
PACKAGES.append(ROOT / "eredu")
LONG = 400


def tracked(folder: Path) -> set[str]:
    """Names in a folder that the repository holds; outside a repository, those that no tool left there."""
    listed = subprocess.run(["git", "ls-files", "-z", "."], cwd=folder, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return {name.partition("/")[0] for name in listed.stdout.split("\0") if name}
    left_over = {"__pycache__", "build", "dist"}
    return {
        item.name
        for item in folder.iterdir()
        if item.name not in left_over and item.suffix != ".egg-info" and not item.name.startswith(".")
    }


def test_the_top_holds_the_house_and_nothing_else() -> None:
    assert tracked(ROOT) - TOP == set()
    assert {name for name in TOP if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_holds_its_packages_and_their_readme(room: str) -> None:
    assert tracked(ROOT / room) - ROOMS[room] == set()
    assert {name for name in ROOMS[room] if not (ROOT / room / name).exists()} == set()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_typed_and_says_what_it_is(package: Path) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert (package / "py.typed").is_file()
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"][package.name]
    folders = {file.parent for file in package.rglob("*.py")}
    for folder in folders:
        text = (folder / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), f"{folder} does not say what it holds"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_wheel_holds_all_data_of_a_package(package: Path) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"][package.name]
    packed = {file for pattern in patterns for file in package.glob(pattern) if file.is_file()}
    files = {file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert {file for file in files - packed if file.suffix != ".py"} == set()


def too_long(text: str) -> bool:
    """Whether a file is over the limit and its docstring does not say why it is long."""
    reason = ast.get_docstring(ast.parse(text)) or ""
    return text.count("\n") > LONG and "long because" not in " ".join(reason.split())


def test_a_file_over_the_limit_says_why_it_is_long() -> None:
    files = [file for room in (*ROOMS, "eredu") for file in (ROOT / room).rglob("*.py")]
    assert len(files) > 50
    assert [str(file.relative_to(ROOT)) for file in files if too_long(file.read_text(encoding="utf-8"))] == []


def test_the_length_rule_tells_right_from_wrong() -> None:
    body = "x = 1\n" * LONG
    assert not too_long(body)
    assert too_long('"""What it is."""\n' + body)
    assert not too_long('"""What it is.\n\nIt is long\nbecause the table is one.\n"""\n' + body)
