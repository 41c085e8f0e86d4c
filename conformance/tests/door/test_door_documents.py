"""What the front door shows is true: its docstrings, the README's programs, its names, and how light it is."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eredu

ROOT = Path(__file__).parents[3]
FRONT = ("eredu", "eredu.model", "eredu.session", "eredu.stream", "eredu.speculation", "eredu.prompts", "eredu.results")
SHOWN = {"eredu": 1, "eredu.model": 3, "eredu.session": 1}
"""Docstrings with calls in them, a module."""
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("name", FRONT)
def test_the_calls_in_docstrings_do_what_they_say(name: str) -> None:
    module = importlib.import_module(name)
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert len(tests) == SHOWN.get(name, 0)
    runner = doctest.DocTestRunner()
    report: list[str] = []
    for test in tests:
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_the_readme_has_the_example_and_the_program() -> None:
    lines = [[line for line in program.splitlines() if line] for program in PROGRAMS]
    assert [len(program) for program in lines] == [3, 11]


def test_the_readme_type_checks_strictly(tmp_path: Path) -> None:
    files = [tmp_path / f"program_{number}.py" for number in range(len(PROGRAMS))]
    for file, program in zip(files, PROGRAMS, strict=True):
        file.write_text(f"# mypy: disallow-any-expr\n{program}", encoding="utf-8")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"))
    checked = subprocess.run([*mypy, *map(str, files)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert checked.stdout == "Success: no issues found in 2 source files\n", checked.stdout + checked.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=["example", "program"])
def test_the_readme_runs(program: str, tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) > 20
    if "close" in program:
        last = ran.stdout.splitlines()[-1]
        assert re.fullmatch(r"cancelled, [12]\.\d\d tokens a round: the prediction heads of the target propose", last)


def test_at_most_a_dozen_names_each_with_a_docstring() -> None:
    assert len(eredu.__all__) <= 12
    assert [name for name in eredu.__all__ if not getattr(eredu, name).__doc__] == []


def test_importing_is_light() -> None:
    heavy = ("mlx", "mlx_lm", "transformers", "tokenizers", "jinja2", "rich", "typer")
    program = f"import sys, eredu; print([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
