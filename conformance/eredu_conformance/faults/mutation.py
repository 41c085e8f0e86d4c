"""The second net: mutmut changes one operator at a time, and every change is noticed or proved to be none.

    python -m eredu_conformance.faults.mutation [MODULE…]

It runs on a copy of a checkout in which the three packages lie side by side, as mutmut wants them, and in which no
function of the spec notes the rules that it obeys: mutmut passes decorated functions over. What is mutated and which
tests are run stands under `tool.mutmut` in pyproject.toml. What stays alive must stand in `survivors.md` beside
this file, with the proof that it is equivalent. Exit status 0: just that. 1: something else is alive, or an entry is
not any more. 2: mutmut could not run.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from eredu_spec.sites import obeys

SURVIVORS = Path(__file__).with_name("survivors.md")
PACKAGES = ("eredu", "spec/eredu_spec", "reference/eredu_reference", "conformance")
_ENTRY = re.compile(
    r"^## (?P<place>\S+)\n+```diff\n(?P<change>.*?)```\n+(?P<proof>.+?)(?=^## |\Z)", re.DOTALL | re.MULTILINE
)
_MANGLED = re.compile(r"\.x(?:ǁ(?P<owner>\w+)ǁ|_)(?P<name>\w+?)__mutmut_\d+$")


class Survivor(NamedTuple):
    """A change that no test noticed.

    Attributes:
        place: The function, as a dotted name.
        change: Its lines of a diff, each with its sign, without indentation.
    """

    place: str
    change: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((self.place, *self.change))


def listed(text: str) -> dict[Survivor, str]:
    """Survivors that a list has proofs for. Raises `ValueError` where an entry has none."""
    found = {}
    for entry in _ENTRY.finditer(text):
        survivor = Survivor(entry["place"], _signed(entry["change"]))
        if not survivor.change:
            raise ValueError(f"the entry {entry['place']} shows no change")
        found[survivor] = " ".join(entry["proof"].split())
    if len(found) != text.count("\n## "):
        raise ValueError(f"{text.count(chr(10) + '## ')} entries, {len(found)} with a change and a proof of their own")
    return found


def _signed(diff: str) -> tuple[str, ...]:
    lines = [line for line in diff.splitlines() if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}]
    return tuple(f"{line[0]} {line[1:].strip()}" for line in lines)


def run(root: Path, modules: Sequence[str] = ()) -> set[Survivor]:
    """Mutate, and return what stays alive.

    Args:
        root: A checkout.
        modules: Dotted names of modules; empty means all that are configured.

    Raises:
        RuntimeError: mutmut could not run, or ran no test for a change.
    """
    with tempfile.TemporaryDirectory(prefix="eredu-mutation-") as folder:
        _lay_out(root, Path(folder))
        chosen = [f"{module}.*" for module in modules]
        ran = _mutmut(folder, "run", "--max-children", str(min(4, os.cpu_count() or 1)), *chosen)
        if ran.returncode:
            raise RuntimeError(f"mutmut could not run:\n{(ran.stdout + ran.stderr)[-3000:]}")
        return set(_alive(folder, modules))


def _lay_out(root: Path, folder: Path) -> None:
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "smollm2*")
        shutil.copytree(root / package, folder / Path(package).name, ignore=ignored)
    shutil.copy(root / "pyproject.toml", folder)
    for file in (folder / "eredu_spec").rglob("*.py"):
        file.write_text(without_notes(file.read_text(encoding="utf-8")), encoding="utf-8")


def without_notes(text: str) -> str:
    """The text of a module with empty lines in place of its `@obeys(…)`, which note where rules are obeyed."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        for noted in getattr(node, "decorator_list", ()):
            if isinstance(noted, ast.Call) and isinstance(noted.func, ast.Name) and noted.func.id == obeys.__name__:
                span = slice(noted.lineno - 1, noted.end_lineno)
                lines[span] = ["\n"] * len(lines[span])
    return "".join(lines)


def _mutmut(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603


def _alive(folder: str, modules: Sequence[str]) -> Iterator[Survivor]:
    for line in _mutmut(folder, "results").stdout.splitlines():
        name, _, state = line.strip().partition(": ")
        if modules and not name.startswith(tuple(f"{module}.x" for module in modules)):
            continue
        if state == "survived":
            yield Survivor(place_of(name), _signed(_mutmut(folder, "show", name).stdout))
        elif state not in {"killed", "timeout"}:
            raise RuntimeError(f"{name} is '{state}': no test of the configured ones runs it, or mutmut was stopped")


def place_of(mutant: str) -> str:
    """The function that a mutant is of, as a dotted name."""
    found = _MANGLED.search(mutant)
    if found is None:
        raise ValueError(f"{mutant!r} is not how mutmut names a mutant")
    names = [mutant[: found.start()], *filter(None, [found["owner"]]), found["name"]]
    return ".".join(names)


def main(modules: Sequence[str]) -> int:
    """Run, and tell what is alive without a proof and what a proof is no longer needed for."""
    known = listed(SURVIVORS.read_text(encoding="utf-8"))
    try:
        alive = run(Path(__file__).resolve().parents[3], modules)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    unproved = sorted(alive - known.keys())
    stale = sorted(known.keys() - alive) if not modules else []
    for title, survivors in (("alive, without a proof", unproved), ("listed, and not alive", stale)):
        for survivor in survivors:
            sys.stdout.write(f"{title}: {survivor}\n\n")
    sys.stdout.write(f"{len(alive)} alive, {len(alive) - len(unproved)} of them proved equivalent\n")
    return 1 if unproved or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
