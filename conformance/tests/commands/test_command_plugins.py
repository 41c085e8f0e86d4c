"""Commands that other packages bring: found by entry points, imported when asked for, and their failures named."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from eredu.commands import plugins

CommandLine = Callable[..., Any]
Register = Callable[[str], None]
ROOT = Path(__file__).parents[3]

PLUGIN = """
import typer

several = typer.Typer(help="Do several things.")

@several.command()
def first() -> None:
    typer.echo("first")

@several.command()
def second() -> None:
    typer.echo("second")

def greet(name: str) -> None:
    '''Greet somebody.

    Politely.
    '''
    typer.echo(f"good evening, {name}")

class RefusedError(Exception):
    exit_status = 7

def refuse() -> None:
    '''Refuse.'''
    raise RefusedError("this is refused; ask for something else")
"""


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    """Register commands out of `stranger.py`, and nothing else."""
    (tmp_path / "stranger.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    found: list[EntryPoint] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == plugins.GROUP else [])

    def add(value: str) -> None:
        found.append(EntryPoint(value.rpartition(":")[2].replace("_", "-"), value, plugins.GROUP))

    return add


def test_a_function_becomes_a_command(eredu_command: CommandLine, register: Register) -> None:
    register("stranger:greet")
    assert eredu_command("greet", "Ada").stdout == "good evening, Ada\n"
    text = eredu_command("greet", "--help").stdout
    assert "Usage: eredu greet" in text
    assert "Politely." in text
    assert "--install-completion" not in text


def test_a_group_becomes_a_command(eredu_command: CommandLine, register: Register) -> None:
    register("stranger:several")
    assert eredu_command("several", "second").stdout == "second\n"


def test_only_the_command_that_is_asked_for_is_imported(eredu_command: CommandLine, register: Register) -> None:
    register("stranger:greet")
    assert eredu_command("fetch", "--help").status == 0
    assert "stranger" not in sys.modules
    text = eredu_command("--help").stdout
    assert "greet" in text
    assert "Greet somebody." in text
    assert "stranger" in sys.modules


def test_without_the_package_there_is_no_command(eredu_command: CommandLine, register: Register) -> None:
    ran = eredu_command("greet", "Ada")
    assert ran.status == 2
    assert "No such command 'greet'" in ran.stderr
    register("stranger:greet")
    assert "Did you mean 'greet'" in eredu_command("greet-", "Ada").stderr


@pytest.mark.parametrize("value", ["missing_package:lost", "stranger:lost"])
def test_a_broken_command_names_itself_and_breaks_no_other(
    eredu_command: CommandLine, register: Register, value: str
) -> None:
    register("stranger:greet")
    register(value)
    for arguments in (("lost",), ("lost", "--help"), ("lost", "--any", "thing")):
        ran = eredu_command(*arguments)
        assert ran.status == 2
        assert ran.stderr.startswith(f"eredu: error: the command 'lost' is installed, but {value} cannot be imported: ")
        assert ran.stderr.count("\n") == 1
    assert f"Unusable: {value} cannot be imported" in eredu_command("--help").stdout
    assert eredu_command("greet", "Ada").status == 0


def test_an_own_command_is_nobody_elses(eredu_command: CommandLine, register: Register) -> None:
    register("stranger:generate")
    assert "Generate text from a prompt" in eredu_command("generate", "--help").stdout


def test_an_error_that_states_its_status_is_one_message(eredu_command: CommandLine, register: Register) -> None:
    register("stranger:refuse")
    ran = eredu_command("refuse")
    assert (ran.status, ran.stdout) == (7, "")
    assert ran.stderr == "eredu: error: this is refused; ask for something else\n"


def test_this_installation_knows_the_commands_of_the_house() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = settings["project"]["entry-points"][plugins.GROUP]
    found = {entry.name: entry.value for entry in entry_points(group=plugins.GROUP)}
    assert {name: found.get(name) for name in wanted} == wanted, "install again: pip install --no-deps -e ."


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("eredu.commands.main", ("mlx", "eredu_spec", "eredu_conformance", "eredu_validation", "eredu_benchmarks")),
        ("eredu_validation.command.validate", ("mlx", "matplotlib", "eredu_conformance")),
        ("eredu_benchmarks.command", ("mlx",)),
        ("eredu_conformance.commands.conformance", ("mlx", "eredu.engine", "eredu.scheduling")),
        ("eredu_conformance.commands.spec", ("mlx", "eredu.engine", "eredu.scheduling")),
        ("eredu_conformance.commands.trace", ("mlx", "eredu.engine", "eredu.scheduling")),
    ],
)
def test_a_command_is_there_quickly(module: str, heavy: tuple[str, ...]) -> None:
    said = f"import {module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
